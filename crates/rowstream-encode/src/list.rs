//! Lists within rows: the JSON around the objects of nested lists.
//!
//! The objects themselves are written by a [`RowEncoder`](crate::RowEncoder) with the shape of
//! [`ListEncoder::part`]. It leaves each object open, so that lists can be added to it. The caller
//! decides which list a row belongs to.

use crate::rows::RECORD_SEPARATOR;
use crate::{Shape, escape};

/// Writes the lists of one statement: either the only list of a body or placeholder, or one list in
/// each object of another statement.
///
/// The calls are `(start (row end_row)* finish)*`. Between `row` and `end_row`, other encoders
/// write the lists that are members of the row.
#[derive(Debug)]
pub struct ListEncoder {
    shape: Shape,
    /// The lists are members of another list's objects.
    is_member: bool,
    /// The bytes that open a list.
    opening: Box<[u8]>,
    /// The rows of the open list.
    rows_in_list: u64,
    rows: u64,
}

impl ListEncoder {
    /// The outermost list. `shape` must allow objects.
    pub fn root(shape: Shape) -> Self {
        let opening: &[u8] = if shape == Shape::Array { b"[" } else { b"" };
        Self { shape, is_member: false, opening: opening.into(), rows_in_list: 0, rows: 0 }
    }

    /// The lists that are the member `name` of another list's objects, after other members.
    pub fn member(name: &str) -> Self {
        let mut opening = Vec::new();
        escape::write_string(name, &mut opening);
        opening.extend_from_slice(b":[");
        Self { shape: Shape::Array, is_member: true, opening: opening.into(), rows_in_list: 0, rows: 0 }
    }

    /// The shape of the objects, both in this list and in nested ones.
    pub fn part(&self) -> Shape {
        if matches!(self.shape, Shape::Lines | Shape::Event) { Shape::LinePart } else { Shape::Part }
    }

    /// Rows of all its lists so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows of the most recent list.
    pub fn rows_in_list(&self) -> u64 {
        self.rows_in_list
    }

    /// Begins a list. The first one in an object must begin while the row's bytes are still in
    /// `out`.
    pub fn start(&mut self, out: &mut Vec<u8>) {
        self.rows_in_list = 0;
        // A member never ends with an opening brace, so this object has no members yet: all were
        // omitted.
        if self.is_member && out.last() != Some(&b'{') {
            out.push(b',');
        }
        out.extend_from_slice(&self.opening);
    }

    /// Writes an object that stays open.
    #[inline]
    pub fn row(&mut self, object: &[u8], out: &mut Vec<u8>) {
        match self.shape {
            Shape::Array if self.rows_in_list > 0 => out.push(b','),
            Shape::Sequence => out.push(RECORD_SEPARATOR),
            Shape::Event => out.extend_from_slice(b"data: "),
            _ => {}
        }
        self.rows_in_list += 1;
        self.rows += 1;
        out.extend_from_slice(object);
    }

    /// Closes the object.
    #[inline]
    pub fn end_row(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self.shape {
            Shape::Lines | Shape::Sequence => b"}\n",
            Shape::Event => b"}\n\n",
            _ => b"}",
        });
    }

    /// Ends the list.
    pub fn finish(&self, out: &mut Vec<u8>) {
        match self.shape {
            Shape::Array => out.push(b']'),
            Shape::Object if self.rows_in_list == 0 => out.extend_from_slice(b"null"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two authors: the first with two books and a prize, the second with none.
    fn authors(shape: Shape) -> String {
        let mut authors = ListEncoder::root(shape);
        let (mut books, mut prizes) = (ListEncoder::member("books"), ListEncoder::member("pri\"zes"));
        let mut out = Vec::new();
        authors.start(&mut out);
        for (author, titles, names) in [
            (r#"{"id":1"#, &[r#"{"t":"a""#, r#"{"t":"b""#][..], &[r#"{"n":"x""#][..]),
            (r#"{"id":2"#, &[], &[]),
        ] {
            authors.row(author.as_bytes(), &mut out);
            for (list, objects) in [(&mut books, titles), (&mut prizes, names)] {
                list.start(&mut out);
                for object in objects {
                    list.row(object.as_bytes(), &mut out);
                    list.end_row(&mut out);
                }
                list.finish(&mut out);
            }
            authors.end_row(&mut out);
        }
        authors.finish(&mut out);
        assert_eq!((authors.rows(), books.rows(), books.rows_in_list(), prizes.rows()), (2, 2, 0, 1));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lists_stand_in_objects() {
        let first = r#"{"id":1,"books":[{"t":"a"},{"t":"b"}],"pri\"zes":[{"n":"x"}]}"#;
        let second = r#"{"id":2,"books":[],"pri\"zes":[]}"#;
        assert_eq!(authors(Shape::Array), format!("[{first},{second}]"));
        assert_eq!(authors(Shape::Lines), format!("{first}\n{second}\n"));
        assert_eq!(authors(Shape::Sequence), format!("\u{1e}{first}\n\u{1e}{second}\n"));
        assert_eq!(authors(Shape::Event), format!("data: {first}\n\ndata: {second}\n\n"));
    }

    #[test]
    fn a_list_is_the_first_member_of_an_object_whose_others_were_left_out() {
        let (mut authors, mut books, mut prizes) =
            (ListEncoder::root(Shape::Array), ListEncoder::member("books"), ListEncoder::member("prizes"));
        let mut out = Vec::new();
        authors.start(&mut out);
        authors.row(b"{", &mut out);
        for list in [&mut books, &mut prizes] {
            list.start(&mut out);
            list.finish(&mut out);
        }
        authors.end_row(&mut out);
        authors.finish(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), r#"[{"books":[],"prizes":[]}]"#);
    }

    #[test]
    fn nothing_is_an_empty_list_or_null() {
        for (shape, expected) in [(Shape::Array, "[]"), (Shape::Object, "null"), (Shape::Lines, "")] {
            let mut list = ListEncoder::root(shape);
            let mut out = Vec::new();
            list.start(&mut out);
            list.finish(&mut out);
            assert_eq!(out, expected.as_bytes(), "{shape:?}");
        }
    }

    #[test]
    fn one_object_stands_alone() {
        let mut list = ListEncoder::root(Shape::Object);
        let mut out = Vec::new();
        list.start(&mut out);
        list.row(b"{\"a\":1", &mut out);
        list.end_row(&mut out);
        list.finish(&mut out);
        assert_eq!(out, b"{\"a\":1}");
        assert_eq!(list.part(), Shape::Part);
        for shape in [Shape::Lines, Shape::Event] {
            assert_eq!(ListEncoder::root(shape).part(), Shape::LinePart);
        }
    }
}
