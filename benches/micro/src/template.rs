//! Body templates: cut when the configuration is read, assembled in each response.

use rowstream_encode::{Segment, Template};
use serde_json::{Value as Json, json};

use crate::{Case, Pass};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("template: cut", || Pass::new(1, cut)), Case::new("template: literals", literals)]
}

fn body() -> Json {
    json!({"_embedded": {"articles": "$articles"}, "_links": {"self": {"href": "/articles"}}, "total": "$total"})
}

/// Parses the template, as for each endpoint at start.
fn cut(out: &mut Vec<u8>) {
    let template = Template::new(&body()).expect("its placeholders are names");
    template.placeholders().for_each(|name| out.extend_from_slice(name.as_bytes()));
}

/// Many responses, because one alone is too short compared with the difference between two runs.
const RESPONSES: usize = 100;

/// Copies the JSON around the rows, as in each response.
fn literals() -> Pass {
    let template = Template::new(&body()).expect("its placeholders are names");
    Pass::new(RESPONSES, move |out| {
        for segment in (0..RESPONSES).flat_map(|_| &template.segments) {
            match segment {
                Segment::Literal(text) => out.extend_from_slice(text),
                Segment::Placeholder(_) | Segment::Count(_) | Segment::Next | Segment::Digest => {}
            }
        }
    })
}
