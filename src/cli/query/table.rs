//! Shows rows as a table on a terminal, while they arrive and in limited memory.
//!
//! The rows arrive as CSV, which is read in pieces. We only keep the part of a value that may be
//! shown. The rows of the first chunk determine the widths of the columns, and only these rows are
//! kept.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::mem;

use csv_core::{ReadFieldResult, Reader};
use rowstream_core::diagnostic::is_invisible;
use unicode_width::UnicodeWidthChar;

/// The text for NULL in the CSV and in the table. A text with the same letters looks the same.
pub(super) const NULL: &str = "NULL";
/// The most columns of the terminal that a text uses.
const WIDEST: usize = 60;
/// The least width of a text on a narrow terminal.
const NARROWEST: usize = 8;
/// The bytes of a value that we read: enough for [`WIDEST`] characters.
const KEPT: usize = 512;
/// The gap between two columns.
const GAP: &str = "  ";

/// Writes CSV as a table. A flush means that no further rows are available. The first flush
/// determines the columns.
pub(super) struct TableWriter<W: Write> {
    out: W,
    reader: Reader,
    /// The bytes that we read of the current value.
    value: Vec<u8>,
    is_cut: bool,
    record: Vec<Cell>,
    /// The names and the first rows, until the columns are determined.
    first: Vec<Vec<Cell>>,
    columns: Vec<TableColumn>,
    /// The width of the terminal that the columns don't use.
    room: usize,
}

/// The layout of a column.
struct TableColumn {
    width: usize,
    /// Numbers are right-aligned and never cut.
    is_number: bool,
}

struct Cell {
    text: String,
    width: usize,
    /// True if the value is longer than the text.
    is_cut: bool,
}

impl<W: Write> TableWriter<W> {
    pub(super) fn new(out: W, width: usize) -> Self {
        Self {
            out,
            reader: Reader::new(),
            value: Vec::with_capacity(KEPT),
            is_cut: false,
            record: Vec::new(),
            first: Vec::new(),
            columns: Vec::new(),
            room: width,
        }
    }

    /// Adds a piece of a value.
    fn keep(&mut self, piece: &[u8]) {
        let kept = piece.len().min(KEPT - self.value.len());
        self.value.extend_from_slice(&piece[..kept]);
        self.is_cut |= kept < piece.len();
    }

    fn end_value(&mut self) {
        self.record.push(Cell::new(&self.value, mem::take(&mut self.is_cut)));
        self.value.clear();
    }

    fn end_record(&mut self) -> io::Result<()> {
        let record = mem::take(&mut self.record);
        if self.columns.is_empty() {
            self.first.push(record);
            return Ok(());
        }
        self.write_row(&record)
    }

    /// Determines the columns from the names and the first rows, and writes these.
    fn begin(&mut self) -> io::Result<()> {
        let first = mem::take(&mut self.first);
        let Some((names, rows)) = first.split_first() else { return Ok(()) };
        self.columns = (0..names.len()).map(|index| TableColumn::new(index, &names[index], rows)).collect();
        self.narrow();
        self.write_row(names)?;
        let rules: Vec<_> = self.columns.iter().map(|column| "─".repeat(column.width)).collect();
        writeln!(self.out, "{}", rules.join(GAP))?;
        rows.iter().try_for_each(|row| self.write_row(row))
    }

    /// Makes the widest texts narrower until the table fits, if it can.
    fn narrow(&mut self) {
        let gaps = GAP.len() * (self.columns.len() - 1);
        let mut total = gaps + self.columns.iter().map(|column| column.width).sum::<usize>();
        while total > self.room {
            let texts =
                self.columns.iter_mut().filter(|column| !column.is_number && column.width > NARROWEST);
            let Some(widest) = texts.max_by_key(|column| column.width) else { break };
            widest.width -= 1;
            total -= 1;
        }
        self.room = self.room.saturating_sub(total);
    }

    fn write_row(&mut self, row: &[Cell]) -> io::Result<()> {
        let mut line = String::new();
        for (column, cell) in self.columns.iter_mut().zip(row) {
            let wanted = cell.width.saturating_sub(column.width);
            let more = if column.is_number && cell.is_number() { wanted } else { wanted.min(self.room) };
            column.width += more;
            self.room = self.room.saturating_sub(more);
            if !line.is_empty() {
                line.push_str(GAP);
            }
            let (text, width) = cell.within(column.width);
            let space = column.width - width;
            let (before, after) = if column.is_number { (space, 0) } else { (0, space) };
            let _ = write!(line, "{:before$}{text}{:after$}", "", "");
        }
        writeln!(self.out, "{}", line.trim_end())
    }
}

impl<W: Write> Write for TableWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        let mut piece = [0; KEPT];
        while !rest.is_empty() {
            let (result, read, written) = self.reader.read_field(rest, &mut piece);
            rest = &rest[read..];
            self.keep(&piece[..written]);
            if let ReadFieldResult::Field { record_end } = result {
                self.end_value();
                if record_end {
                    self.end_record()?;
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.columns.is_empty() {
            self.begin()?;
        }
        self.out.flush()
    }
}

impl TableColumn {
    fn new(index: usize, name: &Cell, rows: &[Vec<Cell>]) -> Self {
        let cells = || rows.iter().filter_map(|row| row.get(index));
        let width = cells().map(|cell| cell.width).fold(name.width, usize::max);
        let mut values = cells().filter(|cell| cell.text != NULL).peekable();
        let is_number = values.peek().is_some() && values.all(Cell::is_number);
        Self { width, is_number }
    }
}

impl Cell {
    /// A cell with these bytes of a value. If it `is_cut`, the value has more bytes. Characters that move
    /// a terminal's cursor or change its colours are escaped.
    fn new(bytes: &[u8], is_cut: bool) -> Self {
        let mut cell = Self { text: String::new(), width: 0, is_cut };
        // A character that's cut in the middle is left out.
        let valid = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        for c in valid.chars() {
            let shown = match c {
                '\n' | '\r' | '\t' => c.escape_default().to_string(),
                _ if is_invisible(c) => c.escape_unicode().to_string(),
                _ => c.to_string(),
            };
            let width = width_of(&shown);
            if cell.width + width > WIDEST {
                cell.is_cut = true;
                break;
            }
            cell.text.push_str(&shown);
            cell.width += width;
        }
        if cell.is_cut {
            cell.text.push('…');
            cell.width += 1;
        }
        cell
    }

    fn is_number(&self) -> bool {
        let digits = self.text.strip_prefix('-').unwrap_or(&self.text);
        digits.starts_with(|c: char| c.is_ascii_digit()) && self.text.parse::<f64>().is_ok()
    }

    /// The part of the text that fits into `width` columns, and its width.
    fn within(&self, width: usize) -> (String, usize) {
        if self.width <= width {
            return (self.text.clone(), self.width);
        }
        let (mut text, mut taken) = (String::new(), 1);
        for c in self.text.chars() {
            let next = taken + c.width().unwrap_or(0);
            if next > width {
                break;
            }
            text.push(c);
            taken = next;
        }
        text.push('…');
        (text, taken)
    }
}

fn width_of(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(width: usize, chunks: &[&str]) -> String {
        let mut out = Vec::new();
        let mut table = TableWriter::new(&mut out, width);
        for chunk in chunks {
            table.write_all(chunk.as_bytes()).unwrap();
            table.flush().unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_stand_at_the_right_and_texts_at_the_left() {
        let csv = "id,name,of\r\n1,Ada,-1.5\r\n20,\"a \"\"b\"\", c\",NULL\r\n3,\"\",10\r\n";
        let expected = "\
id  name        of
──  ────────  ────
 1  Ada       -1.5
20  a \"b\", c  NULL
 3              10
";
        assert_eq!(table(80, &[csv]), expected);
    }

    #[test]
    fn any_cut_of_the_chunks_gives_the_same_rows() {
        let (head, rest) = ("a,b\r\n1,x\r\n", "2,\"y\r\nz\"\r\n3,ä\r\n");
        let whole = table(80, &[head, rest]);
        assert_eq!(whole, "a  b\n─  ─\n1  x\n2  y\\r\\nz\n3  ä\n");
        let mut out = Vec::new();
        let mut bytewise = TableWriter::new(&mut out, 80);
        bytewise.write_all(head.as_bytes()).unwrap();
        bytewise.flush().unwrap();
        for byte in rest.as_bytes() {
            bytewise.write_all(&[*byte]).unwrap();
        }
        assert_eq!(String::from_utf8(out).unwrap(), whole);
    }

    #[test]
    fn texts_are_cut_and_numbers_are_not() {
        let long = "x".repeat(10_000);
        let csv = format!("n,t\r\n1,{long}\r\n");
        let wide = table(usize::MAX, &[&csv]);
        assert_eq!(wide.lines().last().unwrap(), format!("1  {}…", "x".repeat(60)));
        let narrow = table(20, &[&csv, "123456,short\r\n"]);
        assert!(narrow.contains(&format!("\n1  {}…\n", "x".repeat(16))), "{narrow}");
        assert!(narrow.ends_with("\n123456  short\n"), "{narrow}");
    }

    #[test]
    fn columns_grow_while_there_is_room() {
        let grown = table(12, &["t,u\r\na,b\r\n", "abcdefghijkl,m\r\n", "a,b\r\n"]);
        assert_eq!(grown, "t  u\n─  ─\na  b\nabcdefgh…  m\na          b\n");
    }

    #[test]
    fn nothing_moves_the_cursor_and_wide_characters_take_two_columns() {
        let shown = table(80, &["a,b\r\n\u{1b}[2J,1\r\n日本,2\r\ne\u{301},3\r\n"]);
        assert_eq!(shown, "a          b\n─────────  ─\n\\u{1b}[2J  1\n日本       2\ne\u{301}          3\n");
    }

    #[test]
    fn columns_without_rows_are_named() {
        assert_eq!(table(80, &["a,bc\r\n"]), "a  bc\n─  ──\n");
        assert_eq!(table(80, &[""]), "");
    }
}
