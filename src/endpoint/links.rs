//! `links`: the targets of links on pages for browsers, as paths with columns in braces:
//! `links = ["/customers/{customer_id}"]`.

use rowstream_core::Error;
use rowstream_core::diagnostic::reader::Value;
use rowstream_core::diagnostic::{shown, suggest};
use rowstream_encode::Column;

use crate::route::parameter_name;

/// A path of this server, with values of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTemplate {
    /// The segments of the path.
    pub segments: Vec<LinkSegment>,
    /// The template's offset in the file, in bytes.
    pub offset: usize,
}

/// A segment of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkSegment {
    /// This text.
    Text(String),
    /// The value of the column with this name.
    Column(String),
}

/// Reads the templates. Wrong ones are errors.
pub(super) fn read(value: &Value<'_>) -> Vec<LinkTemplate> {
    let templates = value.strings().unwrap_or_default();
    templates.into_iter().filter_map(|(text, item)| read_template(&text, &item)).collect()
}

fn read_template(text: &str, item: &Value<'_>) -> Option<LinkTemplate> {
    let wrong = |why: &str| {
        let hint = "write a path with columns in braces: `/customers/{customer_id}`";
        item.error_with(format!("the link {} {why}", shown(text)), hint);
        None
    };
    let Some(path) = text.strip_prefix('/') else { return wrong("doesn't begin with a slash") };
    let mut segments = Vec::new();
    for segment in path.split('/') {
        segments.push(match parameter_name(segment) {
            _ if matches!(segment, "." | "..") => return wrong("has a segment of dots"),
            Some(column) if column.contains(['{', '}']) => return wrong("has a brace within a name"),
            Some(column) => LinkSegment::Column(column.to_owned()),
            None if segment.contains(['{', '}']) => return wrong("has a brace within a segment"),
            None if segment.is_empty() => return wrong("has an empty segment"),
            None if segment.contains(['?', '#']) => return wrong("has a query or a fragment"),
            None => LinkSegment::Text(segment.to_owned()),
        });
    }
    Some(LinkTemplate { segments, offset: item.offset() })
}

impl LinkTemplate {
    /// The names of its columns.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            LinkSegment::Column(name) => Some(name.as_str()),
            LinkSegment::Text(_) => None,
        })
    }

    /// Checks that its columns are among those of the rows.
    ///
    /// # Errors
    /// One isn't.
    pub(crate) fn check(&self, columns: &[Column]) -> Result<(), Error> {
        let is_known = |name: &&str| columns.iter().any(|column| column.name == *name);
        let Some(name) = self.columns().find(|name| !is_known(name)) else { return Ok(()) };
        let names = columns.iter().map(|column| column.name.as_str());
        Err(Error::endpoint(format!("the link's {} isn't a column of the result", shown(name)))
            .hint(suggest("the columns are", name, names)))
    }
}
