//! The framed profile: records among the rows of formats that don't have an end of their own.
//!
//! ```text
//! {"$rowstream":"<tag>","columns":[{"name":"n","type":"int64"}]}    the types of the rows' members
//! {"n":1}
//! {"n":2}
//! {"$rowstream":"<tag>","mark":{"rows":2,"next":"<cursor>","digest":"sha-256=:…:"}}    to resume a cut stream
//! {"n":3}
//! {"$rowstream":"<tag>","end":{"rows":3,"digest":"sha-256=:…:"}}    nothing is missing; or
//! {"$rowstream":"<tag>","error":{"code":"…","detail":"…",…}}        followed by an abort
//! ```
//!
//! The tag is random for each response, which has it in its header `Rowstream-Tag`. A row that
//! looks like a record has another tag.

use std::mem;
use std::time::{Duration, Instant};

use http::HeaderName;
use rowstream_core::Error;
pub(crate) use rowstream_encode::Framing;
use rowstream_encode::{Column, ValueOptions};
use serde_json::{Value as Json, json};

use super::ResponseId;
use super::page::PageEnd;
use crate::outcome::RowCounts;

/// The tag of a framed response.
pub(crate) const TAG: HeaderName = HeaderName::from_static("rowstream-tag");
/// The value of the media type's parameter `profile`.
pub(crate) const PROFILE: &str = "framed";
/// A mark is written at least every so many rows,
const MARK_ROWS: u64 = 1000;
/// and at least this often while there are new rows.
const MARK_AFTER: Duration = Duration::from_secs(1);

/// The columns of rows, and of the lists in them, which follow the columns.
pub(crate) struct RowDescription<'a> {
    pub(crate) columns: &'a [Column],
    /// Each list's name, and its rows.
    pub(crate) lists: Vec<(&'a str, RowDescription<'a>)>,
}

impl RowDescription<'_> {
    /// The columns with their types. Options for values don't change the types, except as
    /// [`Column::type_word`] says.
    fn json(&self, options: ValueOptions) -> Json {
        let column = |column: &Column| json!({"name": column.name, "type": column.type_word(options)});
        let list = |(name, rows): &(&str, RowDescription<'_>)| json!({"name": name, "type": "list", "columns": rows.json(options)});
        self.columns.iter().map(column).chain(self.lists.iter().map(list)).collect()
    }
}

/// A message from the server among the rows.
pub(crate) enum Record<'a> {
    /// The types of the rows' members.
    Columns(&'a RowDescription<'a>, ValueOptions),
    /// So many rows precede this record, and the following ones are those after the cursor `next`.
    Mark { rows: u64, next: &'a str, digest: Option<&'a str> },
    /// Nothing is missing.
    End {
        rows: RowCounts,
        total: Option<u64>,
        next: Option<&'a str>,
        page: Option<PageEnd>,
        digest: Option<&'a str>,
    },
    /// The result can't be completed.
    Error(&'a Error),
}

impl Record<'_> {
    /// The name of the record's member, and its value.
    fn member(&self) -> (&'static str, Json) {
        match self {
            Self::Columns(columns, options) => ("columns", columns.json(*options)),
            Self::Mark { rows, next, digest } => {
                let mut mark = json!({"rows": rows, "next": next});
                if let Some(digest) = digest {
                    mark["digest"] = json!(digest);
                }
                ("mark", mark)
            }
            Self::End { rows, total, next, page, digest } => {
                let mut end = json!({"rows": rows.rows});
                if let Some(nested) = rows.nested {
                    end["nested_rows"] = json!(nested);
                }
                if let Some(total) = total {
                    end["total"] = json!(total);
                }
                let page = page.map(PageEnd::name);
                for (name, text) in [("next", *next), ("page", page), ("digest", *digest)] {
                    if let Some(text) = text {
                        end[name] = json!(text);
                    }
                }
                ("end", end)
            }
            Self::Error(error) => ("error", error.members()),
        }
    }
}

/// The records of one response.
pub(crate) struct Frames {
    framing: Framing,
    tag: ResponseId,
    /// The options of the rows' values.
    options: ValueOptions,
    /// True once the columns are described.
    has_columns: bool,
    /// The number of rows before the last mark, and when it was written.
    marked: u64,
    marked_at: Instant,
}

impl Frames {
    /// The records of a response with this tag.
    pub(crate) fn new(framing: Framing, tag: ResponseId, options: ValueOptions) -> Self {
        Self { framing, tag, options, has_columns: false, marked: 0, marked_at: Instant::now() }
    }

    /// Describes the columns before the first row. Later readings of a followed stream have the
    /// same ones.
    pub(crate) fn describe(&mut self, columns: &RowDescription<'_>, out: &mut Vec<u8>) {
        if !mem::replace(&mut self.has_columns, true) {
            self.write(&Record::Columns(columns, self.options), out);
        }
    }

    /// Writes a record after complete rows.
    pub(crate) fn write(&self, record: &Record<'_>, out: &mut Vec<u8>) {
        self.write_after(record, false, out);
    }

    /// Writes the last record of a result that has failed. The row before it may have `begun`
    /// without having ended.
    pub(crate) fn write_error(&self, error: &Error, begun: bool, out: &mut Vec<u8>) {
        self.write_after(&Record::Error(error), begun, out);
    }

    fn write_after(&self, record: &Record<'_>, begun: bool, out: &mut Vec<u8>) {
        let (name, value) = record.member();
        self.framing.write_record(&self.tag.to_string(), name, &value, begun, out);
    }

    /// True if there are marks. Events don't need them, because each has its cursor.
    pub(crate) fn has_marks(&self) -> bool {
        self.framing != Framing::Events
    }

    /// True if a mark is due after so many rows.
    pub(crate) fn is_due(&self, rows: u64) -> bool {
        self.has_marks() && rows >= self.marked + MARK_ROWS
    }

    /// True if rows have waited too long for a mark.
    pub(crate) fn is_late(&self, rows: u64) -> bool {
        self.late_in(rows).is_some_and(|left| left.is_zero())
    }

    /// How long rows may still wait for a mark; `None` if none do.
    pub(crate) fn late_in(&self, rows: u64) -> Option<Duration> {
        let waits = self.has_marks() && rows > self.marked;
        waits.then(|| MARK_AFTER.saturating_sub(self.marked_at.elapsed()))
    }

    /// Writes a mark after so many rows, with the cursor to the next ones, and the digest of all bytes
    /// before it if it was requested.
    pub(crate) fn mark(&mut self, rows: u64, next: &str, digest: Option<&str>, out: &mut Vec<u8>) {
        (self.marked, self.marked_at) = (rows, Instant::now());
        self.write(&Record::Mark { rows, next, digest }, out);
    }
}

#[cfg(test)]
mod tests {
    use rowstream_encode::ColumnKind;

    use super::*;

    const TAG: &str = "0000000000000000000000000000002a";

    fn written(framing: Framing, write: impl FnOnce(&mut Frames, &mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut Frames::new(framing, ResponseId(42), ValueOptions::DEFAULT), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn records_are_lines_or_in_sequence() {
        let end = Record::End { rows: RowCounts::of(3), total: None, next: None, page: None, digest: None };
        let expected = format!("{{\"$rowstream\":\"{TAG}\",\"end\":{{\"rows\":3}}}}\n");
        assert_eq!(written(Framing::Lines, |frames, out| frames.write(&end, out)), expected);
        let in_sequence = written(Framing::Sequence, |frames, out| frames.write(&end, out));
        assert_eq!(in_sequence, format!("\u{1e}{expected}"));
        let event = written(Framing::Events, |frames, out| frames.write(&end, out));
        assert_eq!(event, format!("event: rowstream\ndata: {expected}\n"));
    }

    #[test]
    fn columns_are_described_once() {
        let column = |name: &str, kind| Column { name: name.into(), type_name: String::new(), kind };
        let orders = [column("total", ColumnKind::decimal(10, 2)), column("placed", ColumnKind::TimestampTz)];
        let lists = vec![("orders", RowDescription { columns: &orders, lists: Vec::new() })];
        let customers = RowDescription { columns: &[column("id", ColumnKind::Int64)], lists };
        let text = written(Framing::Lines, |frames, out| {
            frames.describe(&customers, out);
            frames.describe(&customers, out);
        });
        let columns = concat!(
            r#"[{"name":"id","type":"int64"},{"name":"orders","type":"list","columns":"#,
            r#"[{"name":"total","type":"decimal"},{"name":"placed","type":"date-time"}]}]"#
        );
        assert_eq!(text, format!("{{\"$rowstream\":\"{TAG}\",\"columns\":{columns}}}\n"));
    }

    #[test]
    fn members_are_there_where_they_apply() {
        let page = Some(PageEnd::Last);
        let end = Record::End {
            rows: RowCounts { nested: Some(7), ..RowCounts::of(3) },
            total: Some(9),
            next: Some("c"),
            page,
            digest: Some("d"),
        };
        let text = written(Framing::Lines, |frames, out| frames.write(&end, out));
        assert!(
            text.contains(
                r#""end":{"rows":3,"nested_rows":7,"total":9,"next":"c","page":"last","digest":"d"}"#
            ),
            "{text}"
        );
        let error = Error::endpoint("a\nb").sqlstate("22012").hint("h");
        let text = written(Framing::Lines, |frames, out| frames.write_error(&error, false, out));
        for member in [r#""code":"endpoint""#, r#""detail":"a\nb""#, r#""sqlstate":"22012""#, r#""hint":"h""#]
        {
            assert!(text.contains(member), "{text}");
        }
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn an_error_begins_a_line_of_its_own() {
        let error = Error::endpoint("e");
        let text = written(Framing::Lines, |frames, out| frames.write_error(&error, true, out));
        assert!(text.starts_with("\n{"), "{text}");
    }

    #[test]
    fn marks_come_every_thousand_rows() {
        let mut frames = Frames::new(Framing::Lines, ResponseId(42), ValueOptions::DEFAULT);
        assert!(!frames.is_due(999) && frames.is_due(1000) && !frames.is_late(999));
        let mut out = Vec::new();
        frames.mark(1000, "abc", None, &mut out);
        let expected = format!("{{\"$rowstream\":\"{TAG}\",\"mark\":{{\"rows\":1000,\"next\":\"abc\"}}}}\n");
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert!(!frames.is_due(1999) && frames.is_due(2000));
        frames.marked_at -= MARK_AFTER;
        assert!(!frames.is_late(1000) && frames.is_late(1001));
    }
}
