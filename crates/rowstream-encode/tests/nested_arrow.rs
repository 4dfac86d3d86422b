//! Arrow's own library reads our streams of nested rows.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::collections::VecDeque;
use std::iter::repeat_n;
use std::slice::from_ref;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_schema::DataType;
use proptest::prelude::*;
use rowstream_encode::{
    Column, ColumnKind, NestedArrowEncoder, NestedColumns, NestedMisfit, RowWriter, ScalarKind, Value,
};
use serde_json::json;

/// The end-of-stream marker.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
/// The size of a full batch.
const BATCH: usize = 64 * 1024;

/// A statement: its name, its parent, and its columns.
type Statement = (&'static str, Option<usize>, &'static [(&'static str, ColumnKind)]);

/// Authors with books and prizes. Books have reviews.
const LIBRARY: [Statement; 4] = [
    ("authors", None, &[("name", ColumnKind::Text), ("lives", ColumnKind::Bool)]),
    (
        "books",
        Some(0),
        &[
            ("id", ColumnKind::Int32),
            ("tags", ColumnKind::List(ScalarKind::Text)),
            ("sold", ColumnKind::Bool),
        ],
    ),
    ("reviews", Some(1), &[("words", ColumnKind::Text), ("stars", ColumnKind::List(ScalarKind::Int32))]),
    ("prizes", Some(0), &[("sum", ColumnKind::Decimal { precision: 9, scale: 1 })]),
];

/// Writes rows as a merge does: the next row of each statement is read before it has a place.
struct Merge {
    statements: &'static [Statement],
    encoder: NestedArrowEncoder,
    out: Vec<u8>,
    /// The rows of each statement that aren't read yet.
    unread: Vec<VecDeque<serde_json::Value>>,
    /// True if the next row of the statement is read.
    is_read: Vec<bool>,
    /// For each step, true if the stream is flushed after it.
    flushes: Vec<bool>,
    steps: usize,
    /// The complete rows of the outermost statement.
    complete: usize,
    /// The first of them whose lists are too long.
    too_long: Option<usize>,
}

impl Merge {
    fn new(statements: &'static [Statement], longest_lists: usize) -> Self {
        let columns: Vec<Vec<Column>> = statements
            .iter()
            .map(|(_, _, columns)| columns.iter().map(|(name, kind)| Column::new(*name, *kind)).collect())
            .collect();
        let nested = statements.iter().zip(&columns);
        let nested =
            nested.map(|((name, parent, _), columns)| NestedColumns { name, parent: *parent, columns });
        let mut merge = Self {
            statements,
            encoder: NestedArrowEncoder::new(nested, longest_lists),
            out: Vec::new(),
            unread: statements.iter().map(|_| VecDeque::new()).collect(),
            is_read: vec![false; statements.len()],
            flushes: vec![false],
            steps: 0,
            complete: 0,
            too_long: None,
        };
        merge.encoder.start(&mut merge.out);
        merge
    }

    fn children(&self, which: usize) -> Vec<usize> {
        (0..self.statements.len()).filter(|&other| self.statements[other].1 == Some(which)).collect()
    }

    fn collect(&mut self, which: usize, rows: &[serde_json::Value]) {
        self.unread[which].extend(rows.iter().cloned());
        for child in self.children(which) {
            for row in rows {
                self.collect(child, row[self.statements[child].0].as_array().unwrap());
            }
        }
    }

    /// Writes these rows of the outermost statement.
    fn write(&mut self, rows: &[serde_json::Value]) {
        self.collect(0, rows);
        (0..self.statements.len()).for_each(|which| self.read(which));
        self.write_list(0, rows);
    }

    fn write_list(&mut self, which: usize, rows: &[serde_json::Value]) {
        for row in rows {
            self.read(which);
            let placed = self.encoder.place(which);
            self.note(&placed);
            self.is_read[which] = false;
            self.step();
            for child in self.children(which) {
                self.write_list(child, row[self.statements[child].0].as_array().unwrap());
                self.read(child);
                let ended = self.encoder.end_list(child);
                self.note(&ended);
                self.step();
            }
            if which == 0 {
                self.encoder.end_row(&mut self.out);
                self.complete += 1;
                self.step();
            }
        }
    }

    fn note(&mut self, result: &Result<(), NestedMisfit>) {
        if result.is_err() {
            self.too_long.get_or_insert(self.complete);
        }
    }

    fn read(&mut self, which: usize) {
        if self.is_read[which] {
            return;
        }
        let Some(row) = self.unread[which].pop_front() else { return };
        self.is_read[which] = true;
        let (level, out) = (self.encoder.level(which), &mut self.out);
        level.begin_row(out);
        for (name, _) in self.statements[which].2 {
            let (value, text) = (&row[*name], row[*name].to_string());
            level.value(
                match value {
                    serde_json::Value::Null => Value::Null,
                    serde_json::Value::Bool(bit) => Value::Bool(*bit),
                    serde_json::Value::Number(number) if number.is_f64() => Value::Number(&text),
                    serde_json::Value::Number(number) => Value::Int(number.as_i64().unwrap()),
                    serde_json::Value::String(text) => Value::Text(text),
                    _ => Value::Json(&text),
                },
                out,
            );
        }
        level.end_row(out);
        self.step();
    }

    fn step(&mut self) {
        self.steps += 1;
        if self.flushes[self.steps % self.flushes.len()] {
            self.encoder.flush(&mut self.out);
            assert!(self.too_long.is_some() || !self.encoder.holds_rows());
        }
    }

    fn finish(mut self) -> Vec<RecordBatch> {
        assert_eq!(self.encoder.finish(&mut self.out), Ok(()));
        assert!((0..self.statements.len()).all(|which| self.encoder.misfit(which).is_none()));
        assert!(self.out.ends_with(&END));
        read(&self.out)
    }
}

fn read(stream: &[u8]) -> Vec<RecordBatch> {
    let batches: Vec<_> = StreamReader::try_new(stream, None).unwrap().map(Result::unwrap).collect();
    for batch in &batches {
        batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
    }
    batches
}

fn rows(batches: &[RecordBatch]) -> Vec<serde_json::Value> {
    let rows = batches.iter().map(|batch| arrow_array::StructArray::from(batch.clone()));
    rows.flat_map(|rows| (0..rows.len()).map(|row| json(&rows, row)).collect::<Vec<_>>()).collect()
}

/// A value as JSON.
fn json(array: &dyn Array, row: usize) -> serde_json::Value {
    if array.is_null(row) {
        return serde_json::Value::Null;
    }
    match array.data_type() {
        DataType::Boolean => json!(array.as_boolean().value(row)),
        DataType::Int32 => json!(array.as_primitive::<Int32Type>().value(row)),
        DataType::Decimal128(..) => json!(array.as_primitive::<Decimal128Type>().value(row) as f64 / 10.0),
        DataType::Utf8 => json!(array.as_string::<i32>().value(row)),
        DataType::List(_) => {
            let list = array.as_list::<i32>().value(row);
            (0..list.len()).map(|row| json(&*list, row)).collect()
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            columns.map(|(field, column)| (field.name().clone(), json(&**column, row))).collect()
        }
        other => panic!("no column is of type {other}"),
    }
}

fn text() -> impl Strategy<Value = Option<String>> {
    prop::option::of("[a-zé]{0,9}")
}

/// A book, its reviews, and if it's the last one of its author.
fn book() -> impl Strategy<Value = serde_json::Value> {
    let review = (text(), prop::option::of(prop::collection::vec(prop::option::of(any::<i32>()), 0..4)))
        .prop_map(|(words, stars)| json!({"words": words, "stars": stars}));
    let tags = prop::option::of(prop::collection::vec(text(), 0..3));
    let columns = (any::<Option<i32>>(), tags, any::<Option<bool>>());
    (columns, prop::collection::vec(review, 0..12)).prop_map(
        |((id, tags, sold), reviews)| json!({"id": id, "tags": tags, "sold": sold, "reviews": reviews}),
    )
}

fn author() -> impl Strategy<Value = serde_json::Value> {
    let prize = any::<Option<i16>>().prop_map(|sum| json!({"sum": sum.map(|sum| f64::from(sum) / 10.0)}));
    let lists = (prop::collection::vec(book(), 0..12), prop::collection::vec(prize, 0..20));
    (text(), any::<Option<bool>>(), lists).prop_map(
        |(name, lives, (books, prizes))| json!({"name": name, "lives": lives, "books": books, "prizes": prizes}),
    )
}

proptest! {
    /// Wherever the stream is flushed, all rows are in their lists and in order.
    #[test]
    fn any_rows_come_back(
        authors in prop::collection::vec(author(), 0..12),
        flushes in prop::collection::vec(prop::bool::weighted(0.3), 1..40),
    ) {
        let mut merge = Merge::new(&LIBRARY, usize::MAX);
        merge.flushes = flushes;
        merge.write(&authors);
        prop_assert_eq!(merge.encoder.rows(0), authors.len() as u64);
        prop_assert_eq!(rows(&merge.finish()), authors);
    }

    /// The same lists are too long after any other rows, and wherever the stream is flushed.
    #[test]
    fn a_row_counts_only_its_own_lists(
        authors in prop::collection::vec(author(), 0..30),
        longest_lists in 500..3000_usize,
        flushes in prop::collection::vec(prop::bool::weighted(0.1), 1..40),
    ) {
        let too_long = |authors: &[_], flushes| {
            let mut merge = Merge::new(&LIBRARY, longest_lists);
            merge.flushes = flushes;
            merge.write(authors);
            merge.too_long
        };
        let alone = authors.iter().position(|author| too_long(from_ref(author), vec![false]).is_some());
        prop_assert_eq!(too_long(&authors, flushes), alone);
    }
}

fn plain_author(books: &[serde_json::Value], prizes: &[serde_json::Value]) -> serde_json::Value {
    json!({"name": "x", "lives": true, "books": books, "prizes": prizes})
}

/// A book with one review of this many bytes.
fn long_book(bytes: usize) -> serde_json::Value {
    json!({"id": 1, "tags": [], "sold": true, "reviews": [{"words": "x".repeat(bytes), "stars": []}]})
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A long row was read while it waited for its parent, and batches of one row were written until
    /// then.
    #[test]
    fn a_row_that_waits_fills_no_batch(
        books in prop::collection::vec((0..1000_usize, 0..3 * BATCH), 1..4),
    ) {
        let authors: Vec<_> = books
            .iter()
            .flat_map(|&(before, bytes)| {
                repeat_n(plain_author(&[], &[]), before).chain([plain_author(&[long_book(bytes)], &[])])
            })
            .collect();
        let mut merge = Merge::new(&LIBRARY, usize::MAX);
        merge.write(&authors);
        let long = books.iter().filter(|(_, bytes)| *bytes > BATCH).count();
        // The first four batches are smaller, and the last one may be.
        let most = merge.out.len() / BATCH + long + 5;
        let batches = merge.finish();
        prop_assert!(batches.len() <= most, "{} > {most}", batches.len());
        prop_assert_eq!(rows(&batches), authors);
    }
}

/// Thousands of empty lists were counted to the first row with a child, which was then too long.
#[test]
fn empty_lists_count_to_their_own_rows() {
    let mut authors = vec![plain_author(&[], &[]); 3000];
    authors.push(plain_author(&[long_book(1)], &prizes(1)));
    let mut merge = Merge::new(&LIBRARY, 1024);
    merge.write(&authors);
    assert_eq!(merge.too_long, None);
    assert_eq!(rows(&merge.finish()), authors);
}

/// The ends of empty lists within lists weren't counted, so they could fill the memory.
#[test]
fn the_ends_of_lists_in_lists_count_to_their_row() {
    let book = json!({"id": null, "tags": null, "sold": null, "reviews": []});
    // A book has 100 bits: 33 for `id` and for `tags`, 2 for `sold`, and 32 for the end of `reviews`. The
    // lists of books and prizes have an end, too.
    for (before, books) in (0..9).flat_map(|before| [(before, 7), (before, 8)]) {
        let mut authors = vec![plain_author(from_ref(&book), &[]); before];
        authors.push(plain_author(&vec![book.clone(); books], &[]));
        let mut merge = Merge::new(&LIBRARY, (7 * 100 + 2 * 32_usize).div_ceil(8));
        merge.write(&authors);
        assert_eq!(merge.too_long, (books > 7).then_some(before), "{before}, {books}");
        let list = "books.reviews".to_owned();
        let misfit = (books > 7).then_some(NestedMisfit::TooLong { list, most: 96 });
        assert_eq!(merge.encoder.misfit(2), misfit);
        assert_eq!(merge.encoder.finish(&mut merge.out).err(), misfit);
    }
}

#[test]
fn lists_are_columns_after_those_of_their_row() {
    let merge = Merge::new(&LIBRARY, usize::MAX);
    let schema = StreamReader::try_new(&merge.out[..], None).unwrap().schema();
    let types: Vec<_> =
        schema.fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type())).collect();
    let reviews = "List(Struct(\"words\": Utf8, \"stars\": List(Int32)))";
    let books = format!(
        "books: List(Struct(\"id\": Int32, \"tags\": List(Utf8), \"sold\": Boolean, \"reviews\": {reviews}))"
    );
    let prizes = "prizes: List(Struct(\"sum\": Decimal128(9, 1)))";
    assert_eq!(types, ["name: Utf8", "lives: Boolean", &books, prizes]);
    assert!(rows(&merge.finish()).is_empty());
}

fn prizes(count: usize) -> Vec<serde_json::Value> {
    vec![json!({"sum": 0.5}); count]
}

/// Batches are full by the bytes of all statements, and contain whole rows.
#[test]
fn batches_count_the_rows_in_lists() {
    let author = |prizes| json!({"name": "x", "lives": true, "books": [], "prizes": prizes});
    let mut merge = Merge::new(&LIBRARY, usize::MAX);
    let authors: Vec<_> = (0..1000).map(|n| author(prizes(n % 50))).collect();
    merge.write(&authors);
    let batches = merge.finish();
    let bytes = batches.iter().map(|batch| {
        let columns = batch.columns().iter();
        columns.map(|column| column.to_data().get_slice_memory_size().unwrap()).sum::<usize>()
    });
    // A short list of decimals has 16 bytes each, so a batch has fewer than 200 authors.
    assert!(batches.iter().all(|batch| batch.num_rows() < 200), "{}", batches.len());
    assert!(bytes.clone().all(|bytes| bytes < BATCH + 50 * 16 + 256), "{:?}", bytes.collect::<Vec<_>>());
    assert_eq!(rows(&batches), authors);
}

/// The rows of a list stay in memory until their outermost row ends.
#[test]
fn the_lists_of_a_row_are_bounded() {
    let author = |first: usize, second: usize| {
        let book = json!({"id": 1, "tags": null, "sold": null, "reviews": vec![json!({"words": "12345678", "stars": null}); second]});
        json!({"name": null, "lives": null, "books": [book], "prizes": prizes(first)})
    };
    let mut merge = Merge::new(&LIBRARY, 100 * 16);
    merge.write(&[author(90, 0), author(90, 0), author(0, 70)]);
    assert_eq!(rows(&merge.finish()).len(), 3, "each row has its own bound");
    for (first, second, list, index) in
        [(101, 0, "prizes", 3), (0, 101, "books.reviews", 2), (60, 60, "prizes", 3)]
    {
        let mut merge = Merge::new(&LIBRARY, 100 * 16);
        let before = merge.out.len();
        merge.write(&[author(first, second)]);
        let misfit = merge.encoder.misfit(index).expect("the lists are too long together");
        assert_eq!(misfit, NestedMisfit::TooLong { list: list.to_owned(), most: 1600 });
        let message =
            format!("the lists in one row have more than 1600 bytes in Arrow, the last of them in `{list}`");
        assert_eq!(misfit.to_string(), message);
        merge.encoder.flush(&mut merge.out);
        assert_eq!(merge.encoder.finish(&mut merge.out), Err(misfit));
        assert_eq!(merge.out.len(), before, "nothing is written of a row that doesn't fit");
    }
}

#[test]
fn a_value_that_does_not_fit_is_in_a_column_of_a_list() {
    let mut merge = Merge::new(&LIBRARY, usize::MAX);
    let review = json!({"words": "x", "stars": [1, 1_u64 << 40]});
    let book = json!({"id": 1, "tags": null, "sold": true, "reviews": [review]});
    merge.collect(0, &[json!({"name": "x", "lives": true, "books": [book], "prizes": []})]);
    let before = merge.out.len();
    (0..2).for_each(|which| merge.read(which));
    assert!((0..4).all(|which| merge.encoder.misfit(which).is_none()));
    merge.read(2);
    let message = "column `books.reviews.stars` holds an integer, which its Arrow type List(Int32) cannot";
    let misfit = merge.encoder.misfit(2).unwrap();
    assert_eq!(misfit.to_string(), message);
    assert_eq!(merge.encoder.finish(&mut merge.out), Err(misfit));
    assert_eq!(merge.out.len(), before);
}
