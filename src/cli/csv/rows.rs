//! The rows of a CSV, read one after another.
//!
//! An empty line is a row if the CSV has one column, as in `COPY` of PostgreSQL. Otherwise it's
//! ignored.

use std::fs::File;
use std::io::{BufReader, Bytes, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::str;

use super::CsvError;
use super::layout::{CsvLayout, convert};
use super::syntax::{CsvSyntax, CsvToken};

/// A reader of rows.
pub(super) struct CsvRows<'a> {
    path: &'a Path,
    delimiter: char,
    bytes: Bytes<BufReader<File>>,
    syntax: CsvSyntax<'a>,
    /// The number of columns, once their names are read.
    width: Option<usize>,
    /// The line of the row's start.
    line: u64,
    /// The row's values, without anything between them.
    values: Vec<u8>,
    ends: Vec<usize>,
}

/// A row, until the next one is read.
pub(super) struct CsvRow<'a> {
    values: &'a str,
    ends: &'a [usize],
}

impl<'a> CsvRows<'a> {
    pub(super) fn open(path: &'a Path, layout: &CsvLayout) -> Result<Self, CsvError> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(layout.begin))?;
        Ok(Self {
            path,
            delimiter: char::from(layout.delimiter),
            bytes: BufReader::new(file).bytes(),
            syntax: CsvSyntax::new(path, layout),
            width: None,
            line: 0,
            values: Vec::new(),
            ends: Vec::new(),
        })
    }

    /// Checks the syntax of the whole file. It keeps no row, because an unclosed quote makes one value of
    /// all that follows.
    pub(super) fn check(mut self) -> Result<(), CsvError> {
        while self.token()? != CsvToken::FileEnd {}
        Ok(())
    }

    /// The next row. The first one has the columns' names.
    pub(super) fn next(&mut self) -> Result<Option<CsvRow<'_>>, CsvError> {
        self.begin();
        loop {
            match self.token()? {
                CsvToken::Value(byte) => self.values.push(byte),
                CsvToken::Nothing => {}
                CsvToken::ValueEnd => self.ends.push(self.values.len()),
                CsvToken::EmptyLine if self.width != Some(1) => self.begin(),
                CsvToken::RowEnd | CsvToken::EmptyLine => break,
                CsvToken::FileEnd => return Ok(None),
            }
        }
        self.ends.push(self.values.len());
        self.check_width()?;
        self.row().map(Some)
    }

    fn begin(&mut self) {
        self.line = self.syntax.line();
        self.values.clear();
        self.ends.clear();
    }

    fn token(&mut self) -> Result<CsvToken, CsvError> {
        match self.bytes.next().transpose()? {
            Some(byte) => self.syntax.read(byte),
            None => self.syntax.finish(),
        }
    }

    fn check_width(&mut self) -> Result<(), CsvError> {
        let given = self.ends.len();
        let width = *self.width.get_or_insert(given);
        if given == width {
            return Ok(());
        }
        let Self { line, delimiter, .. } = self;
        let hint = if given > width {
            format!("write a value that contains `{delimiter}` in quotes: `\"a{delimiter}b\"`")
        } else {
            format!("write `{delimiter}` for each empty value too, and a value with a line end in quotes")
        };
        let plural = if given == 1 { "" } else { "s" };
        let message = format!("line {line}: the row has {given} value{plural} instead of {width}");
        Err(format!("{message}\n    hint: {hint}").into())
    }

    fn row(&self) -> Result<CsvRow<'_>, CsvError> {
        let values = str::from_utf8(&self.values).ok();
        // The bytes of a character may be in two values.
        let values = values.filter(|values| self.ends.iter().all(|end| values.is_char_boundary(*end)));
        let values = values.ok_or_else(|| {
            let hint = convert(self.path, "WINDOWS-1252");
            format!("line {}: the text is not UTF-8\n    hint: if it's from Excel, {hint}", self.line)
        })?;
        Ok(CsvRow { values, ends: &self.ends })
    }
}

impl CsvRow<'_> {
    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        let begins = std::iter::once(&0).chain(self.ends);
        begins.zip(self.ends).map(|(begin, end)| &self.values[*begin..*end])
    }
}
