//! Body templates: the JSON around streamed placeholders.

/// A piece of a body, in the order in which it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// JSON text, sent as it is.
    Literal(Vec<u8>),
    /// The name of the statement whose rows stand here.
    Placeholder(String),
}

/// A body template, cut at its placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The pieces in order; no two literals are neighbours.
    pub segments: Vec<Segment>,
}

/// Why a template was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError;

impl Template {
    /// Cuts `body` at its placeholders.
    ///
    /// # Errors
    /// A string that begins with `$` and is neither a placeholder nor escaped.
    pub fn new(_body: &serde_json::Value) -> Result<Self, TemplateError> {
        unimplemented!()
    }
}
