//! The rows and records of one framed response: the wire, version 1. Bytes in, bytes out.
//!
//! 1. A line is a record only if it begins with this response's tag. All others are rows, and are
//!    copied as they are.
//! 2. Bytes after the last line feed aren't a line, so they never become a row.
//! 3. `mark` is set only if its count equals the number of rows that arrived, and its digest matches
//!    the bytes before it. The same is true of `end`.

use memchr::{memchr, memchr_iter, memrchr};
use serde_json::Value;

use super::fault::Fault;
use super::proof::DigestNeed;
use crate::completeness::digest::Digest;

/// The longest row, in bytes. A server sends longer ones only if lists in a row are that long.
pub(super) const LONGEST_ROW: usize = 128 << 20;
/// The longest record, in bytes. The longest one describes columns.
const LONGEST_RECORD: usize = 4 << 20;
/// The longest cursor, in bytes. It must fit into a request.
const LONGEST_CURSOR: usize = 8 << 10;
/// Precedes each element of a JSON sequence.
const SEPARATOR: u8 = 0x1e;

/// The form of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Ndjson,
    JsonSeq,
}

impl Form {
    /// The form of a response with this content type. `None`: it can't contain records.
    pub(super) fn of(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/x-ndjson" => Some(Self::Ndjson),
            "application/json-seq" => Some(Self::JsonSeq),
            _ => None,
        }
    }
}

/// A place from which the response can be resumed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Its place among the bytes of rows that [`Lines::feed`] writes.
    pub(super) at: usize,
    /// The rows of this response before it.
    pub(super) rows: u64,
    pub(super) next: String,
}

/// The `end` record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct End {
    /// True if it ends a full page, so that other rows may follow.
    pub(super) is_full_page: bool,
    /// True if it has a digest, which matches the body before it.
    pub(super) has_digest: bool,
}

pub(super) struct Lines {
    form: Form,
    /// The beginning of each record.
    record: Vec<u8>,
    /// The beginning of a line whose end hasn't arrived.
    rest: Vec<u8>,
    /// Those of the record `columns`.
    pub(super) columns: Option<Value>,
    /// The longest row, in bytes.
    longest: usize,
    /// Of the body so far.
    digest: Digest,
    digest_need: DigestNeed,
    pub(super) rows: u64,
    /// The last one. The caller takes it.
    pub(super) mark: Option<Mark>,
    pub(super) end: Option<End>,
}

impl Lines {
    pub(super) fn new(form: Form, tag: &str, digest_need: DigestNeed, longest: usize) -> Self {
        let record = format!("{{\"$rowstream\":\"{tag}\",").into_bytes();
        let (rest, digest) = (Vec::new(), Digest::default());
        Self {
            form,
            record,
            rest,
            columns: None,
            longest,
            digest,
            digest_need,
            rows: 0,
            mark: None,
            end: None,
        }
    }

    /// Reads the next bytes of the body, and appends whole rows to `rows`. Bytes after the end
    /// record are ignored.
    ///
    /// # Errors
    /// The server reports an error, or something is missing. The rows until then, and `mark`, are
    /// right.
    pub(super) fn feed(&mut self, bytes: &[u8], rows: &mut Vec<u8>) -> Result<(), Fault> {
        if self.end.is_some() {
            return Ok(());
        }
        if !self.rest.is_empty() {
            let Some(at) = memchr(b'\n', bytes) else { return self.keep(bytes) };
            self.keep(&bytes[..=at])?;
            let line = std::mem::take(&mut self.rest);
            self.lines(&line, rows)?;
            return self.feed(&bytes[at + 1..], rows);
        }
        let whole = memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        self.lines(&bytes[..whole], rows)?;
        self.keep(&bytes[whole..])
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if self.rest.len() + bytes.len() > self.longest {
            let detail = format!("a row is longer than {} MiB", self.longest >> 20);
            let hint = match self.longest {
                LONGEST_ROW => "read its lists from endpoints of their own",
                _ => "the requests of --parallel share 128 MiB: use fewer",
            };
            return Err(Fault::lasting(detail, hint));
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }

    /// Reads whole lines. Rows that follow each other are copied at once.
    fn lines(&mut self, bytes: &[u8], rows: &mut Vec<u8>) -> Result<(), Fault> {
        let (mut start, mut copied) = (0, 0);
        for at in memchr_iter(b'\n', bytes) {
            let line = &bytes[start..=at];
            if self.is_row(line) {
                self.rows += 1;
            } else {
                self.copy(&bytes[copied..start], rows);
                self.line(line, rows)?;
                if self.end.is_some() {
                    return Ok(());
                }
                copied = at + 1;
            }
            start = at + 1;
        }
        self.copy(&bytes[copied..start], rows);
        Ok(())
    }

    /// True if [`Self::line`] would only copy the line. Those of a sequence need their separator.
    #[inline]
    fn is_row(&self, line: &[u8]) -> bool {
        self.form == Form::Ndjson
            && self.columns.is_some()
            && line != b"\n"
            && !line.starts_with(&self.record)
    }

    fn copy(&mut self, lines: &[u8], rows: &mut Vec<u8>) {
        self.digest.update(lines);
        rows.extend_from_slice(lines);
    }

    /// Reads a line with its line feed.
    fn line(&mut self, line: &[u8], rows: &mut Vec<u8>) -> Result<(), Fault> {
        let start = match self.form {
            Form::Ndjson => 0,
            Form::JsonSeq => memrchr(SEPARATOR, line).map_or(0, |at| at + 1),
        };
        let element = &line[start..];
        if element.starts_with(&self.record) {
            return self.record(&line[..start], element, rows.len());
        }
        self.digest.update(line);
        if element == b"\n" {
            return Ok(());
        }
        if self.columns.is_none() {
            return Err(Fault::cut("the record with the columns is missing"));
        }
        if self.form == Form::JsonSeq {
            rows.push(SEPARATOR);
        }
        rows.extend_from_slice(element);
        self.rows += 1;
        Ok(())
    }

    /// Reads a record, at this place among the rows.
    fn record(&mut self, before: &[u8], record: &[u8], at: usize) -> Result<(), Fault> {
        if record.len() > LONGEST_RECORD {
            let detail = format!("a record is longer than {} MiB", LONGEST_RECORD >> 20);
            return Err(Fault::lasting(detail, "select fewer columns, or request another format"));
        }
        let mut members: Value =
            serde_json::from_slice(record).map_err(|_| Fault::cut("a record isn't whole"))?;
        if let Some(error) = members.get("error") {
            return Err(Fault::of_server(error));
        }
        // A record's digest doesn't cover its own separator.
        let (before, separator) = before.split_at(before.len().saturating_sub(1));
        self.digest.update(before);
        if let Some(end) = members.get("end") {
            self.check_count(end)?;
            let has_digest = self.check_digest(end)?;
            self.end = Some(End { is_full_page: end["page"] == "full", has_digest });
            return Ok(());
        }
        if let Some(columns) = members.get_mut("columns") {
            self.columns = Some(columns.take());
        }
        if let Some(mark) = members.get("mark") {
            self.check_count(mark)?;
            self.check_digest(mark)?;
            let next = mark["next"].as_str().filter(|next| next.len() <= LONGEST_CURSOR);
            let next = next.ok_or_else(|| Fault::cut("a mark has no cursor"))?.to_owned();
            self.mark = Some(Mark { at, rows: self.rows, next });
        }
        self.digest.update(separator);
        self.digest.update(record);
        Ok(())
    }

    /// A wrong number is a cut: a proxy lost a line.
    fn check_count(&self, record: &Value) -> Result<(), Fault> {
        let (sent, arrived) = (&record["rows"], self.rows);
        if sent.as_u64() == Some(arrived) {
            return Ok(());
        }
        Err(Fault::cut(format!("the server sent {sent} rows, but {arrived} arrived")))
    }

    /// Compares the digest in a record with the bytes before it. Returns true if the record has one.
    fn check_digest(&self, record: &Value) -> Result<bool, Fault> {
        match (record["digest"].as_str(), self.digest_need) {
            (Some(sent), _) if sent == self.digest.text() => Ok(true),
            (Some(_), _) => Err(Fault::other_digest()),
            (None, DigestNeed::Optional) => Ok(false),
            (None, DigestNeed::Required) => Err(Fault::no_digest()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COLUMNS: &str = "{\"$rowstream\":\"t\",\"columns\":[]}\n";

    /// The rows of these pieces, and the reader after them.
    fn read(form: Form, pieces: &[&[u8]]) -> (String, Lines, Result<(), Fault>) {
        let (mut lines, mut rows) = (Lines::new(form, "t", DigestNeed::Optional, LONGEST_ROW), Vec::new());
        let ended = pieces.iter().try_for_each(|piece| lines.feed(piece, &mut rows));
        (String::from_utf8(rows).unwrap(), lines, ended)
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same(size in 1_usize..90) {
            let text = format!(
                "{COLUMNS}{{\"id\":1}}\n\n{{\"$rowstream\":\"u\",\"end\":{{\"rows\":0}}}}\n\
                 {{\"$rowstream\":\"t\",\"mark\":{{\"rows\":2,\"next\":\"c\"}}}}\n{{\"id\":\"é\"}}\n\
                 {{\"$rowstream\":\"t\",\"news\":1}}\n{{\"$rowstream\":\"t\",\"end\":{{\"rows\":3}}}}\nignored\n"
            );
            let (rows, lines, ended) = read(Form::Ndjson, &text.as_bytes().chunks(size).collect::<Vec<_>>());
            let first = "{\"id\":1}\n{\"$rowstream\":\"u\",\"end\":{\"rows\":0}}\n";
            prop_assert_eq!(rows, format!("{first}{{\"id\":\"é\"}}\n"));
            prop_assert_eq!(lines.mark, Some(Mark { at: first.len(), rows: 2, next: "c".to_owned() }));
            prop_assert_eq!((lines.end.is_some(), ended), (true, Ok(())));
        }

        #[test]
        fn a_sequence_keeps_its_separators(size in 1_usize..90) {
            let text = format!(
                "\x1e{COLUMNS}\x1e\x1e{{\"id\":1}}\n\x1e{{\"id\":2\x1e{{\"$rowstream\":\"t\",\"end\":{{\"rows\":1}}}}\n"
            );
            let (rows, lines, _) = read(Form::JsonSeq, &text.as_bytes().chunks(size).collect::<Vec<_>>());
            prop_assert_eq!((&*rows, lines.end.is_some()), ("\x1e{\"id\":1}\n", true));
        }
    }

    #[test]
    fn a_requested_digest_has_to_arrive() {
        for record in ["\"end\":{\"rows\":0}", "\"mark\":{\"rows\":0,\"next\":\"c\"}"] {
            let text = format!("{COLUMNS}{{\"$rowstream\":\"t\",{record}}}\n");
            let mut lines = Lines::new(Form::Ndjson, "t", DigestNeed::Required, LONGEST_ROW);
            let ended = lines.feed(text.as_bytes(), &mut Vec::new());
            assert_eq!((ended, lines.mark, lines.end), (Err(Fault::no_digest()), None, None));
        }
    }

    /// A row was torn, and the mark after it kept it, although the digest at the end differed.
    #[test]
    fn a_torn_row_has_no_mark() {
        let (right, torn) = ("\u{1e}{\"id\":12}\n", "\u{1e}{\"id\":13}\n");
        let before = format!("\u{1e}{COLUMNS}{right}\u{1e}");
        let digest = Digest::of(before.as_bytes());
        let mark = format!(
            "\u{1e}{{\"$rowstream\":\"t\",\"mark\":{{\"rows\":1,\"next\":\"c\",\"digest\":\"{digest}\"}}}}\n"
        );
        let digest = Digest::of((before.clone() + &mark).as_bytes());
        let end = format!("\u{1e}{{\"$rowstream\":\"t\",\"end\":{{\"rows\":1,\"digest\":\"{digest}\"}}}}\n");
        let all = before + &mark + &end;
        let (_, lines, ended) = read(Form::JsonSeq, &[all.as_bytes()]);
        assert_eq!((lines.mark.is_some(), ended), (true, Ok(())));
        assert!(lines.end.unwrap().has_digest);
        let (_, lines, ended) = read(Form::JsonSeq, &[all.replace(right, torn).as_bytes()]);
        assert_eq!((lines.mark, lines.end, ended), (None, None, Err(Fault::other_digest())));
    }

    #[test]
    fn incomplete_responses_have_no_end() {
        let record = |member: &str| format!("{{\"$rowstream\":\"t\",{member}}}\n");
        for (text, reason) in [
            ("{\"id\":1}\n".to_owned(), "the record with the columns is missing"),
            (COLUMNS.to_owned() + "{}\n" + &record("\"end\":{\"rows\":2}"), "2 rows, but 1 arrived"),
            (COLUMNS.to_owned() + &record("\"mark\":{\"rows\":1,\"next\":\"c\"}"), "1 rows, but 0 arrived"),
            (COLUMNS.to_owned() + &record("\"mark\":{\"rows\":0}"), "a mark has no cursor"),
            (COLUMNS.to_owned() + &record("\"end\":{\"rows\":\"0\"}"), "\"0\" rows, but 0 arrived"),
            (COLUMNS.to_owned() + "{\"$rowstream\":\"t\",\"end\n", "a record isn't whole"),
            (COLUMNS.to_owned() + &record("\"error\":{\"code\":\"c\",\"detail\":\"d\"}"), "c: d"),
        ] {
            let (_, lines, ended) = read(Form::Ndjson, &[text.as_bytes()]);
            assert!(ended.unwrap_err().to_string().contains(reason), "{text}");
            assert_eq!((lines.end, lines.mark), (None, None), "{text}");
        }
    }
}
