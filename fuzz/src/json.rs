//! Rows as JSON, as lines, as a sequence, with options, and with nested lists: `serde_json` reads
//! the same values back.

use arbitrary::{Arbitrary, Result, Unstructured};
use rowstream_encode::{
    Column, ColumnKind, ListEncoder, Nulls, OptionsEncoder, RowEncoder, RowWriter, Shape, ValueOptions,
};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::value::{Owned, Table, options};

/// JSON before and after an array of rows, which must not be mistaken for a part of it.
const BEFORE: &[u8] = b"\"before\"";

/// The rows of a table in every shape, or nested lists.
pub fn json(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let _ = if u.arbitrary().unwrap_or_default() { lists(&mut u) } else { rows(&mut u) };
}

fn rows(u: &mut Unstructured<'_>) -> Result<()> {
    const SHAPES: [Shape; 6] =
        [Shape::Array, Shape::Object, Shape::Scalar, Shape::Lines, Shape::Sequence, Shape::Event];
    let shape = *u.choose(&SHAPES)?;
    let options = options(u)?;
    let table = Table::arbitrary(u)?;
    let mut out = BEFORE.to_vec();
    let mut encoder = OptionsEncoder::new(shape, options, &table.columns);
    encoder.start(&mut out);
    write_rows(&mut encoder, &table.rows, &mut out);
    encoder.finish(&mut out);
    assert_eq!(encoder.rows(), table.rows.len() as u64);
    if options == ValueOptions::DEFAULT {
        assert_eq!(out, by_default(shape, &table), "both encoders write the same");
    }
    let text = std::str::from_utf8(&out[BEFORE.len()..]).expect("JSON is UTF-8");
    assert_rows(shape, options, &table, text);
    Ok(())
}

fn by_default(shape: Shape, table: &Table) -> Vec<u8> {
    let mut out = BEFORE.to_vec();
    let mut encoder = RowEncoder::new(shape, &table.columns);
    encoder.start(&mut out);
    write_rows(&mut encoder, &table.rows, &mut out);
    encoder.finish(&mut out);
    out
}

fn write_rows(encoder: &mut impl RowWriter, rows: &[Vec<Owned>], out: &mut Vec<u8>) {
    for row in rows {
        encoder.begin_row(out);
        row.iter().for_each(|value| encoder.value(value.lend(), out));
        encoder.end_row(out);
    }
}

/// The data of each event, which is one line followed by an empty one.
fn events(text: &str) -> impl Iterator<Item = &str> {
    assert!(!text.contains('\r') && (text.is_empty() || text.ends_with("\n\n")));
    text.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").expect("data"))
}

fn assert_rows(shape: Shape, options: ValueOptions, table: &Table, text: &str) {
    let Table { columns, rows } = table;
    let objects: Vec<Members<'_>> = match shape {
        Shape::Array => serde_json::from_str(text).expect("an array of objects"),
        Shape::Lines => {
            assert!(text.is_empty() || text.ends_with('\n'));
            assert!(!text.contains('\r'));
            text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
        }
        Shape::Event => events(text).map(|data| serde_json::from_str(data).expect("an object")).collect(),
        Shape::Sequence => {
            let texts = text.split('\u{1e}').skip(1);
            texts
                .map(|text| {
                    serde_json::from_str(text.strip_suffix('\n').expect("a line feed")).expect("an object")
                })
                .collect()
        }
        Shape::Object => match rows.first() {
            None => return assert_eq!(text, "null"),
            Some(row) => {
                return assert_row(columns, row, options, &serde_json::from_str(text).expect("an object"));
            }
        },
        _ => match rows.first().and_then(|row| row.first()) {
            None => return assert_eq!(text, "null"),
            Some(value) => {
                let raw: &RawValue = serde_json::from_str(text).expect("a value");
                return value.assert_json(raw.get(), options);
            }
        },
    };
    assert_eq!(objects.len(), rows.len());
    objects.iter().zip(rows).for_each(|(object, row)| assert_row(columns, row, options, object));
}

/// Panics unless `object` has the values of `row`, under the names of the columns and in their
/// order.
fn assert_row(columns: &[Column], row: &[Owned], options: ValueOptions, object: &Members<'_>) {
    let written = |value: &Owned| !(value.is_null() && options.nulls == Nulls::Omit);
    let expected: Vec<_> = columns.iter().zip(row).filter(|(_, value)| written(value)).collect();
    assert_eq!(object.0.len(), expected.len(), "{object:?}");
    for ((name, raw), (column, value)) in object.0.iter().zip(expected) {
        assert_eq!(*name, column.name);
        value.assert_json(raw.get(), options);
    }
}

/// The members of an object, in order.
#[derive(Debug)]
pub(crate) struct Members<'a>(pub(crate) Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// A row of two values, and the rows of its lists.
#[derive(Debug, Arbitrary)]
struct Author {
    row: [Owned; 2],
    books: Vec<Book>,
    prizes: Vec<[Owned; 2]>,
}

#[derive(Debug, Arbitrary)]
struct Book {
    row: [Owned; 2],
    reviews: Vec<[Owned; 2]>,
}

/// An encoder of objects, and of their list.
struct Level {
    objects: OptionsEncoder,
    list: ListEncoder,
    object: Vec<u8>,
}

impl Level {
    fn new(list: ListEncoder, part: Shape, options: ValueOptions) -> Self {
        Self { objects: OptionsEncoder::new(part, options, &columns()), list, object: Vec::new() }
    }

    /// Writes an object and leaves it open.
    fn row(&mut self, row: &[Owned; 2], out: &mut Vec<u8>) {
        self.object.clear();
        write_rows(&mut self.objects, &[row.to_vec()], &mut self.object);
        self.list.row(&self.object, out);
    }

    /// Writes a list of objects without nested lists.
    fn plain(&mut self, rows: &[[Owned; 2]], out: &mut Vec<u8>) {
        self.list.start(out);
        for row in rows {
            self.row(row, out);
            self.list.end_row(out);
        }
        self.list.finish(out);
    }
}

fn columns() -> Vec<Column> {
    ["a", "b\""]
        .map(|name| Column { name: name.to_owned(), type_name: String::new(), kind: ColumnKind::Text })
        .into()
}

/// Reviews of books of authors, who also have prizes.
fn lists(u: &mut Unstructured<'_>) -> Result<()> {
    let shape = *u.choose(&[Shape::Array, Shape::Object, Shape::Lines, Shape::Sequence, Shape::Event])?;
    let options = options(u)?;
    let names: [String; 3] = u.arbitrary()?;
    let mut authors: Vec<Author> = u.arbitrary()?;
    if shape == Shape::Object {
        authors.truncate(1);
    }
    let text = written(shape, options, &names, &authors);
    let objects: Vec<Members<'_>> = match shape {
        Shape::Array => serde_json::from_str(&text).expect("an array of objects"),
        Shape::Object if authors.is_empty() => {
            return {
                assert_eq!(text, "null");
                Ok(())
            };
        }
        Shape::Object => vec![serde_json::from_str(&text).expect("an object")],
        Shape::Event => events(&text).map(|data| serde_json::from_str(data).expect("an object")).collect(),
        _ => {
            assert!(shape == Shape::Sequence || !text.contains('\r'));
            let separator = if shape == Shape::Lines { '\n' } else { '\u{1e}' };
            let texts = text.split(separator).filter(|text| !text.is_empty());
            texts.map(|text| serde_json::from_str(text).expect("an object each")).collect()
        }
    };
    assert_eq!(objects.len(), authors.len());
    for (object, author) in objects.iter().zip(&authors) {
        let [books, prizes] = assert_object(object, &author.row, options, [&names[0], &names[1]]);
        assert_eq!(prizes.len(), author.prizes.len());
        for (prize, row) in prizes.iter().zip(&author.prizes) {
            assert_object(prize, row, options, []);
        }
        assert_eq!(books.len(), author.books.len());
        for (book, expected) in books.iter().zip(&author.books) {
            let [reviews] = assert_object(book, &expected.row, options, [&names[2]]);
            assert_eq!(reviews.len(), expected.reviews.len());
            for (review, row) in reviews.iter().zip(&expected.reviews) {
                assert_object(review, row, options, []);
            }
        }
    }
    Ok(())
}

fn written(shape: Shape, options: ValueOptions, names: &[String; 3], authors: &[Author]) -> String {
    let root = ListEncoder::root(shape);
    let part = root.part();
    let mut root = Level::new(root, part, options);
    let [mut books, mut prizes, mut reviews] =
        [0, 1, 2].map(|index| Level::new(ListEncoder::member(&names[index]), part, options));
    let mut out = Vec::new();
    root.list.start(&mut out);
    for author in authors {
        root.row(&author.row, &mut out);
        books.list.start(&mut out);
        for book in &author.books {
            books.row(&book.row, &mut out);
            reviews.plain(&book.reviews, &mut out);
            books.list.end_row(&mut out);
        }
        books.list.finish(&mut out);
        prizes.plain(&author.prizes, &mut out);
        root.list.end_row(&mut out);
    }
    root.list.finish(&mut out);
    assert_eq!(root.list.rows(), authors.len() as u64);
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// Panics unless `object` has the values of `row`, followed by the lists with these names. Returns
/// the lists.
fn assert_object<'a, const N: usize>(
    object: &Members<'a>,
    row: &[Owned; 2],
    options: ValueOptions,
    names: [&String; N],
) -> [Vec<Members<'a>>; N] {
    let (values, lists) = object.0.split_at(object.0.len() - N);
    assert_row(&columns(), row, options, &Members(values.to_vec()));
    std::array::from_fn(|index| {
        let (name, raw) = &lists[index];
        assert_eq!(name, names[index]);
        serde_json::from_str(raw.get()).expect("a list of objects")
    })
}
