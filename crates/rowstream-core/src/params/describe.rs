//! Descriptions of parameters for people and programs: in the listing at `/`, and in the output of
//! `rowstream check`.

use serde_json::{Value, json};

use super::{Param, ParamPlace, ParamValue};

impl Param {
    /// Its type, as in endpoint files: `integer`, `integer[]`.
    pub fn type_name(&self) -> String {
        format!("{}{}", self.kind.name(), if self.list { "[]" } else { "" })
    }

    /// The facts about it that a client needs. Users' programs read them, so members may be added,
    /// but never changed. All members are always present.
    pub fn to_json(&self) -> Value {
        let place = match &self.place {
            ParamPlace::Path => "path",
            ParamPlace::Query => "query",
            ParamPlace::Header { .. } => "header",
            ParamPlace::Claim => "token",
        };
        let header = match &self.place {
            ParamPlace::Header { name, .. } => Some(name.to_string()),
            ParamPlace::Path | ParamPlace::Query | ParamPlace::Claim => None,
        };
        let text = |value: &Option<ParamValue>| value.as_ref().and_then(ParamValue::postgres_text);
        json!({
            "name": self.name,
            "type": self.kind.name(),
            "list": self.list,
            "in": place,
            "header": header,
            "required": self.default.is_none(),
            "default": text(&self.default),
            "min": text(&self.min),
            "max": text(&self.max),
            "allowed": self.allowed.iter().filter_map(ParamValue::postgres_text).collect::<Vec<_>>(),
            "summary": self.summary,
        })
    }
}
