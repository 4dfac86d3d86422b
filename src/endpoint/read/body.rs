//! The body of an endpoint: a JSON template with placeholders for rows.

use bytes::Bytes;
use rowstream_core::diagnostic::reader::{Table, Value};
use rowstream_core::diagnostic::{File, suggest};
use rowstream_encode::{Segment, Template};

use super::{RESERVED, refcursors};
use crate::endpoint::{Cardinality, Endpoint, Handler, Piece, Statement};

/// Rows in a body: those of a statement or of an upstream.
pub(super) struct RowSet<'a> {
    pub(super) name: &'a str,
    cardinality: Cardinality,
    /// The index of the rows that contain them, if they're nested.
    parent: Option<usize>,
    /// The statement that opens the refcursor with these rows.
    pub(super) opener: Option<&'a str>,
}

impl<'a> RowSet<'a> {
    fn of_statement(statement: &'a Statement) -> Self {
        let parent = statement.nested.as_ref().map(|nested| nested.parent);
        let (name, opener) = (statement.name.as_str(), statement.opener.as_ref().map(|opener| &*opener.name));
        Self { name, cardinality: statement.cardinality, parent, opener }
    }

    fn of_upstream() -> Self {
        Self { name: Endpoint::ONLY, cardinality: Cardinality::Many, parent: None, opener: None }
    }
}

/// The rows for the body of an endpoint.
fn row_sets(handler: &Handler) -> Vec<RowSet<'_>> {
    match handler {
        Handler::Sql(sql) => sql.statements.iter().map(RowSet::of_statement).collect(),
        Handler::Calls(_) | Handler::Pages(_) => vec![RowSet::of_upstream()],
        Handler::Proxy(_) => Vec::new(),
    }
}

/// The pieces of an endpoint's body. Empty if the response is proxied.
pub(super) fn pieces(
    file: File<'_>,
    body: Option<&BodyTemplate<'_>>,
    handler: &Handler,
) -> Option<Vec<Piece>> {
    match body {
        _ if matches!(handler, Handler::Proxy(_)) => Some(Vec::new()),
        Some(body) => read(file, &body.value, body.template.as_ref()?, &row_sets(handler)),
        None => default_of(file, &row_sets(handler)),
    }
}

/// The default body of an endpoint: the rows of the only statement that isn't nested.
fn default_of(file: File<'_>, sets: &[RowSet<'_>]) -> Option<Vec<Piece>> {
    let roots: Vec<_> = (0..sets.len()).filter(|&i| sets[i].parent.is_none()).collect();
    if let [root] = roots[..] {
        return Some(vec![Piece::Rows(root)]);
    }
    let example: Vec<_> = roots.iter().map(|&i| format!("{0} = \"${0}\"", sets[i].name)).collect();
    let hint = format!("arrange them: `body = {{ {} }}`", example.join(", "));
    file.error(0, "there are several statements, so `body` is needed", Some(hint));
    None
}

/// Reads the body, which must contain every statement once.
fn read(file: File<'_>, value: &Value<'_>, template: &Template, sets: &[RowSet<'_>]) -> Option<Vec<Piece>> {
    let placeholders: Vec<_> = template.placeholders().map(str::to_owned).collect();
    let mut pieces = Vec::new();
    for segment in &template.segments {
        pieces.push(match segment {
            Segment::Literal(bytes) => Piece::Literal(Bytes::copy_from_slice(bytes)),
            Segment::Placeholder(name) => {
                let offset = value.find(|text| text.strip_prefix('$') == Some(name));
                Piece::Rows(placed(file, offset, name, sets, &pieces)?)
            }
            Segment::Next => Piece::Next,
            Segment::Count(name) => {
                let counts = CountFinder { file, sets, before: &pieces, placeholders: &placeholders };
                Piece::Count(counts.read(value, name.as_deref())?)
            }
            Segment::Digest => read_digest(file, value, &pieces, placeholders.len())?,
        });
    }
    check_placed(value, sets, &pieces);
    Some(pieces)
}

/// Checks `$next`: it's the cursor of rows that precede it.
pub(super) fn check_next(file: File<'_>, endpoint: &Endpoint, body: Option<&BodyTemplate<'_>>) {
    let Some(at) = endpoint.body.iter().position(|piece| *piece == Piece::Next) else { return };
    let rows = endpoint.key().map(|key| Piece::Rows(key.statement));
    let (message, hint) = match rows {
        None => ("`$next` is a cursor, but this endpoint has no `key`", "name its columns: `key = [\"…\"]`"),
        Some(rows) if !endpoint.body[..at].contains(&rows) => {
            ("`$next` precedes the rows that it continues", "put it after them")
        }
        Some(_) => return,
    };
    let offset = body.map_or(0, |body| body.value.find(|text| text == "$next"));
    file.error(offset, message, Some(hint.to_owned()));
}

/// The body of a file, cut at its placeholders.
pub(super) struct BodyTemplate<'a> {
    value: Value<'a>,
    /// `None` after an error.
    template: Option<Template>,
}

impl<'a> BodyTemplate<'a> {
    pub(super) fn take(table: &mut Table<'a>) -> Option<Self> {
        table.take("body").map(|value| Self { template: template(&value), value })
    }
}

/// Cuts a body at its placeholders. The crate that cuts it has no offsets, so we search for them
/// here.
fn template(value: &Value<'_>) -> Option<Template> {
    let json = value.json()?;
    let Ok(template) = Template::new(&json) else {
        let offset = value.find(is_no_placeholder);
        let hint = "write `$name` for a statement's rows, or `$$` for a dollar".to_owned();
        value.error_at(offset, "this text begins with a dollar, but doesn't name a statement", hint);
        return None;
    };
    Some(template)
}

/// Returns true if a text of a body begins with a dollar, but isn't a placeholder and the dollar
/// isn't doubled.
fn is_no_placeholder(text: &str) -> bool {
    text.starts_with('$') && Template::new(&text.into()).is_err()
}

/// The statement of a placeholder.
fn placed(file: File<'_>, offset: usize, name: &str, sets: &[RowSet<'_>], before: &[Piece]) -> Option<usize> {
    if RESERVED.contains(&name) {
        let hint = format!("rename the statement (write `$${name}` for the text itself)");
        file.error(offset, format!("`${name}` is reserved, but has no meaning yet"), Some(hint));
        return None;
    }
    let Some(index) = sets.iter().position(|set| set.name == name) else {
        if refcursors::is_placed(file, offset, name, sets) {
            return None;
        }
        let near = suggest("the statements are", name, sets.iter().map(|set| set.name));
        let hint = format!("{near} (write `$${name}` for the text itself)");
        file.error(offset, format!("no statement is named `{name}`"), Some(hint));
        return None;
    };
    if before.iter().any(|piece| piece.statement() == Some(index)) {
        let hint = "a statement runs once: write a second one with its own name".to_owned();
        file.error(offset, format!("the body has `${name}` twice"), Some(hint));
        return None;
    }
    if let Some(parent) = sets[index].parent {
        let message = format!("`{name}` is already nested in the rows of `{}`", sets[parent].name);
        file.error(offset, message, Some("remove it from the body".to_owned()));
        return None;
    }
    Some(index)
}

/// Reads `$digest`. It covers the bytes before it, so it must follow all rows.
fn read_digest(file: File<'_>, value: &Value<'_>, before: &[Piece], placed: usize) -> Option<Piece> {
    if before.iter().filter(|piece| piece.statement().is_some()).count() < placed {
        let offset = value.find(|text| text == "$digest");
        let hint = "put it after all rows: it covers the bytes before it".to_owned();
        file.error(offset, "`$digest` precedes rows", Some(hint));
        return None;
    }
    Some(Piece::Digest)
}

/// Finds the list that `$count` or `$count(name)` counts.
struct CountFinder<'a> {
    file: File<'a>,
    sets: &'a [RowSet<'a>],
    /// The pieces that precede it in the body.
    before: &'a [Piece],
    /// The statements in the body.
    placeholders: &'a [String],
}

impl CountFinder<'_> {
    fn read(&self, value: &Value<'_>, name: Option<&str>) -> Option<usize> {
        let shown = name.map_or("$count".to_owned(), |name| format!("$count({name})"));
        let offset = value.find(|text| text == shown);
        match name.map_or_else(|| self.only_list(), |name| self.list(name)) {
            Ok(list) if self.is_before(list) => Some(list),
            Ok(list) => {
                let name = &self.sets[self.root(list)].name;
                let hint =
                    format!("put it after `\"${name}\"`: the number of rows is known only at their end");
                self.file.error(offset, format!("`{shown}` precedes the rows that it counts"), Some(hint));
                None
            }
            Err((message, hint)) => {
                self.file.error(offset, format!("`{shown}` {message}"), Some(hint));
                None
            }
        }
    }

    /// The only list in the body. Fails if the body doesn't have exactly one.
    fn only_list(&self) -> Result<usize, (String, String)> {
        let placed = |i: &usize| {
            let set = &self.sets[*i];
            set.cardinality == Cardinality::Many && self.placeholders.iter().any(|name| name == set.name)
        };
        let lists: Vec<_> = (0..self.sets.len()).filter(placed).collect();
        match lists[..] {
            [list] => Ok(list),
            [] => Err((
                "counts the rows of a list, but the body has no list".to_owned(),
                "remove it".to_owned(),
            )),
            [first, ..] => Err((
                "doesn't name the list that it counts".to_owned(),
                format!("write `$count({})`", self.sets[first].name),
            )),
        }
    }

    fn list(&self, name: &str) -> Result<usize, (String, String)> {
        let lists = || self.sets.iter().filter(|set| set.cardinality == Cardinality::Many);
        let index = self.sets.iter().position(|set| set.name == name);
        index.filter(|&index| self.sets[index].cardinality == Cardinality::Many).ok_or_else(|| {
            let hint = suggest("the lists are", name, lists().map(|set| set.name).collect::<Vec<_>>());
            ("names something other than a list".to_owned(), hint)
        })
    }

    /// The outermost ancestor of `statement`, or `statement` itself if it isn't nested.
    fn root(&self, mut statement: usize) -> usize {
        while let Some(parent) = self.sets[statement].parent {
            statement = parent;
        }
        statement
    }

    fn is_before(&self, list: usize) -> bool {
        self.before.iter().any(|piece| piece.statement() == Some(self.root(list)))
    }
}

fn check_placed(value: &Value<'_>, sets: &[RowSet<'_>], pieces: &[Piece]) {
    for (i, set) in sets.iter().enumerate() {
        if set.parent.is_none() && !pieces.iter().any(|piece| piece.statement() == Some(i)) {
            let name = set.name;
            let hint = format!("add `\"${name}\"` to the body, or remove the statement");
            value.error_with(format!("the body doesn't use the statement `{name}`"), hint);
        }
    }
}
