//! JSON Schemas (2020-12) of responses: values by the kind of their column, rows, and the bodies
//! around them.

use rowstream_encode::{BytesForm, Column, ColumnKind, Nulls, Numbers, ValueOptions};
use serde_json::{Map, Value, json};

use super::DocumentOptions;
use crate::check::Columns;
use crate::endpoint::{Cardinality, Endpoint, Handler, Piece, RefineSettings};

/// Marks the number of a placeholder. No text in a template begins with it.
const PLACEHOLDER: char = '\u{1}';

/// The name of the schema of the rows of the endpoint `name`.
pub(super) fn row_name(name: &str) -> String {
    format!("{name}Row")
}

/// A reference to the schema of this name.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The responses of an endpoint.
pub(super) struct ResponseSchemas<'a> {
    endpoint: &'a Endpoint,
    /// The columns of each statement. `None` if they're unknown for all statements.
    columns: Option<&'a [Option<Columns>]>,
    options: ValueOptions,
    /// The name of the endpoint.
    name: &'a str,
}

impl<'a> ResponseSchemas<'a> {
    pub(super) fn new(
        endpoint: &'a Endpoint,
        columns: Option<&'a [Option<Columns>]>,
        asked: DocumentOptions,
        name: &'a str,
    ) -> Self {
        Self { endpoint, columns, options: asked.options(endpoint), name }
    }

    /// The name of the schema of the rows in formats without a body. `None` if there are several
    /// kinds of rows, or no rows.
    pub(super) fn row_name(&self) -> Option<String> {
        self.endpoint.rows_statement().map(|_| row_name(self.name))
    }

    /// This schema, with its name.
    pub(super) fn named_row(&self) -> Option<(String, Value)> {
        self.row_name().zip(self.endpoint.rows_statement().map(|rows| self.row(rows)))
    }

    /// The schema of a JSON body; `row` is the name of the rows' schema.
    pub(super) fn body(&self, row: Option<&str>) -> Value {
        self.template(&template(self.endpoint), row)
    }

    fn template(&self, template: &Value, row: Option<&str>) -> Value {
        if let Some(piece) = placed(self.endpoint, template) {
            return self.piece(piece, row);
        }
        match template {
            Value::Object(members) => {
                let properties =
                    members.iter().map(|(name, value)| (name.clone(), self.template(value, row)));
                object(&properties.collect(), &members.keys().collect::<Vec<_>>())
            }
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| self.template(item, row)).collect();
                let length = items.len();
                match length {
                    0 => json!({"type": "array", "maxItems": 0}),
                    _ => json!({
                        "type": "array", "prefixItems": items, "minItems": length, "maxItems": length,
                    }),
                }
            }
            constant => json!({"const": constant}),
        }
    }

    fn piece(&self, piece: &Piece, row: Option<&str>) -> Value {
        match piece {
            Piece::Literal(_) => json!({}),
            Piece::Rows(statement) => self.rows(*statement, row),
            Piece::Count(_) => json!({"type": "integer", "minimum": 0}),
            Piece::Next => json!({"type": ["string", "null"], "description": "the cursor of the last row"}),
            Piece::Digest => json!({"type": "string", "description": "the digest of all bytes before it"}),
        }
    }

    /// The schema of a statement's rows in a body.
    fn rows(&self, statement: usize, row: Option<&str>) -> Value {
        let one = || match row {
            Some(name) if self.endpoint.rows_statement() == Some(statement) => reference(name),
            _ => self.row(statement),
        };
        match self.cardinality(statement) {
            Cardinality::Many => json!({"type": "array", "items": one()}),
            Cardinality::One if self.endpoint.not_found() => one(),
            Cardinality::One => json!({"anyOf": [one(), {"type": "null"}]}),
            Cardinality::Value => match self.columns(statement).as_deref() {
                Some([column]) => value(column, self.options),
                _ => json!({}),
            },
        }
    }

    fn cardinality(&self, statement: usize) -> Cardinality {
        let statement = self.endpoint.statements().get(statement);
        statement.map_or(Cardinality::Many, |statement| statement.cardinality)
    }

    /// The columns of a statement, if they're known.
    fn columns(&self, statement: usize) -> Option<Vec<Column>> {
        match &self.endpoint.handler {
            Handler::Sql(_) => match self.columns?.get(statement)?.as_ref()? {
                Columns::Own(columns) => Some(columns.clone()),
                Columns::Refcursor(_) | Columns::Result(_) => None,
            },
            Handler::Calls(calls) => Some(calls.columns().to_vec()),
            Handler::Pages(pages) => Some(pages.columns().to_vec()),
            Handler::Proxy(_) => None,
        }
    }

    /// A row of a statement, with its nested lists.
    fn row(&self, statement: usize) -> Value {
        let Some(columns) = self.columns(statement) else { return json!({"type": "object"}) };
        let mut properties: Map<_, _> =
            columns.iter().map(|column| (column.name.clone(), value(column, self.options))).collect();
        // A request that selects columns leaves others out.
        let is_whole = !self.endpoint.refine_settings().is_some_and(RefineSettings::selects);
        let mut required: Vec<_> = match self.options.nulls {
            Nulls::Null if is_whole => columns.iter().map(|column| &column.name).collect(),
            Nulls::Null | Nulls::Omit => Vec::new(),
        };
        for child in self.endpoint.children(statement) {
            let name = &self.endpoint.statements()[child].name;
            properties.insert(name.clone(), json!({"type": "array", "items": self.row(child)}));
            required.push(name);
        }
        object(&properties, &required)
    }
}

/// The template of an endpoint's JSON body. [`placed`] finds the placeholders in it.
pub(crate) fn template(endpoint: &Endpoint) -> Value {
    let mut text = Vec::new();
    for (index, piece) in endpoint.body.iter().enumerate() {
        match piece {
            Piece::Literal(literal) => text.extend_from_slice(literal),
            _ => text.extend_from_slice(json!(format!("{PLACEHOLDER}{index}")).to_string().as_bytes()),
        }
    }
    // The template was valid JSON when it was read.
    serde_json::from_slice(&text).unwrap_or_else(|_| json!({}))
}

/// The piece of the body that replaces this part of its template. `None` if the part is fixed.
pub(crate) fn placed<'a>(endpoint: &'a Endpoint, template: &Value) -> Option<&'a Piece> {
    let index = template.as_str()?.strip_prefix(PLACEHOLDER)?.parse::<usize>().ok()?;
    endpoint.body.get(index)
}

/// A value of a column. It can always be NULL, because databases don't report which results
/// can't.
pub(crate) fn value(column: &Column, options: ValueOptions) -> Value {
    let as_string = options.numbers == Numbers::String;
    let word = column.type_word(options);
    match column.kind {
        ColumnKind::Bool => nullable(word, None),
        ColumnKind::Int64 if as_string => json!({"type": ["string", "null"], "pattern": "^-?[0-9]+$"}),
        ColumnKind::Int16 | ColumnKind::Int32 | ColumnKind::Int64 => nullable("integer", Some(word)),
        ColumnKind::Decimal { .. } | ColumnKind::Number if as_string => nullable("string", Some(word)),
        ColumnKind::Float32 | ColumnKind::Float64 | ColumnKind::Decimal { .. } | ColumnKind::Number => {
            float(word)
        }
        // An array can have arrays in it, so its items have no type.
        ColumnKind::List(_) => nullable(word, None),
        ColumnKind::Json if word == "array" => nullable(word, None),
        ColumnKind::Any | ColumnKind::Json => json!({}),
        ColumnKind::Bytes => match options.bytes {
            BytesForm::Hex => json!({"type": ["string", "null"], "pattern": r"^\\x([0-9a-f]{2})*$"}),
            BytesForm::Base64 => json!({"type": ["string", "null"], "contentEncoding": "base64"}),
        },
        ColumnKind::Text => nullable("string", Some(word).filter(|word| *word != "string")),
        ColumnKind::Date
        | ColumnKind::Time
        | ColumnKind::Timestamp
        | ColumnKind::TimestampTz
        | ColumnKind::Uuid => nullable("string", Some(word)),
    }
}

fn object(properties: &Map<String, Value>, required: &[&String]) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

fn nullable(kind: &str, format: Option<&str>) -> Value {
    match format {
        None => json!({"type": [kind, "null"]}),
        Some(format) => json!({"type": [kind, "null"], "format": format}),
    }
}

/// A number, or a value that JSON numbers can't represent.
fn float(format: &str) -> Value {
    json!({"anyOf": [
        {"type": "number", "format": format},
        {"enum": ["NaN", "Infinity", "-Infinity"]},
        {"type": "null"},
    ]})
}
