//! The parameters of an endpoint in the body of a POST: the operation `post`, and the schema of its
//! body.
//!
//! Its responses are those of the GET, so it refers to them.

use rowstream_core::params::{Param, ParamPlace, ParamType};
use serde_json::{Map, Value, json};

use super::operation::{Operation, REFINED, SharedComponents, json_value, parameter, refined_schema, schema};
use super::schema::reference;
use super::{SIGNED_URL, security};
use crate::route;

/// The codes of wrong bodies.
pub(super) const CODES: [&str; 4] =
    ["invalid_body", "body_timeout", "body_too_long", "unsupported_media_type"];

/// The name of the schema of the parameters of the endpoint `name`.
pub(super) fn parameters_name(name: &str) -> String {
    format!("{name}Parameters")
}

impl Operation<'_> {
    /// The operation object of a POST. `None` if no parameter can be in its body.
    pub(super) fn describe_post(&self, shared: &mut SharedComponents) -> Option<Value> {
        let body = self.request_body()?;
        let mut operation = self.begin("post");
        let elsewhere = self.endpoint.params.iter().filter(|param| !is_in_body(param)).filter_map(parameter);
        operation["parameters"] = elsewhere.chain(self.shared_parameters(shared)).collect();
        operation["requestBody"] = body;
        operation["responses"] = self.responses_of_post(shared).into();
        let is_of_post = |scheme: &str| scheme != SIGNED_URL;
        operation["security"] = security(self.config, &self.endpoint.authorization, is_of_post);
        Some(operation)
    }

    /// The schema of the parameters in a body, with its name.
    pub(super) fn body_schema(&self) -> Option<(String, Value)> {
        if self.endpoint.is_proxy() {
            return None;
        }
        let own = self.endpoint.params.iter().filter(|param| is_in_body(param));
        let required: Vec<_> =
            own.clone().filter(|param| param.default.is_none()).map(|param| param.name.as_str()).collect();
        let mut properties: Map<_, _> = own.map(|param| (param.name.clone(), member(param))).collect();
        let mut others = Value::from(false);
        for name in self.refined() {
            match REFINED.iter().find(|(known, ..)| *known == name) {
                Some((_, _, "object")) => others = conditions(),
                Some((_, _, kind)) => {
                    properties.insert(name.to_owned(), refined_schema(kind));
                }
                None => {}
            }
        }
        if properties.is_empty() && others == false {
            return None;
        }
        let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": others});
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        Some((parameters_name(&self.name), schema))
    }

    fn request_body(&self) -> Option<Value> {
        let (name, schema) = self.body_schema()?;
        let described = json!({"schema": reference(&name)});
        let mut content = json!({"application/json": described});
        // In a form, JSON is a text.
        let is_json = |param: &Param| param.kind == ParamType::Json && is_in_body(param);
        if !self.endpoint.params.iter().any(is_json) {
            content["application/x-www-form-urlencoded"] = described;
        }
        Some(json!({"required": schema.get("required").is_some(), "content": content}))
    }

    fn responses_of_post(&self, shared: &mut SharedComponents) -> Map<String, Value> {
        let mut responses = self.other_responses(shared, |code| code != "invalid_signature");
        let of_get = format!("#/paths/{}/get/responses/200", pointer(&route::encoded(&self.endpoint.path)));
        responses.insert("200".to_owned(), json!({"$ref": of_get}));
        responses
    }
}

/// True if a body may contain the parameter.
fn is_in_body(param: &Param) -> bool {
    param.place == ParamPlace::Query
}

/// The conditions on one column.
fn conditions() -> Value {
    let text = json!({"type": "string"});
    json!({"anyOf": [text, {"type": "array", "items": text, "minItems": 1}]})
}

/// A parameter as a member of a JSON object.
fn member(param: &Param) -> Value {
    let mut member = match (param.kind, param.list) {
        (ParamType::Json, false) => json_value(param),
        (ParamType::Json, true) => {
            let mut list = schema(param);
            list["items"] = json!({});
            list
        }
        _ => schema(param),
    };
    // `null` is the same as no member.
    if param.kind == ParamType::Json && !param.list && param.default.is_none() {
        member["not"] = json!({"type": "null"});
    }
    if let Some(summary) = &param.summary {
        member["description"] = summary.as_str().into();
    }
    member
}

/// A key of an object in a JSON pointer that is the fragment of a URI.
fn pointer(key: &str) -> String {
    let mut pointer = String::with_capacity(key.len());
    for c in key.chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            '%' => pointer.push_str("%25"),
            '{' => pointer.push_str("%7B"),
            '}' => pointer.push_str("%7D"),
            other => pointer.push(other),
        }
    }
    pointer
}
