//! The answer to a command that has rows, packet by packet.
//!
//! ```text
//!   Head ── number of columns ──► Columns ── the last one ──► ColumnsEnd ── EOF ──► Rows ── EOF ──► done
//!     │                                                           │
//!     └── OK: no rows, or no more ──► done                        └── EOF, of a cursor ──► done
//! ```
//!
//! An ERR at any stage ends it. The answer to COM_STMT_FETCH begins with `Rows`. After the rows of
//! a procedure, its next answers follow from `Head` on, and finally an OK.

use super::error::DatabaseError;
use super::packet::{self, EOF, EOF_BELOW, ERR, LOCAL_INFILE, OK, Reader, status};
use super::wire::{Frame, Wire};

/// The packets that we expect next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Head,
    /// This many columns.
    Columns(u64),
    ColumnsEnd,
    Rows,
}

/// The meaning of a packet.
#[derive(Debug)]
pub(super) enum Step {
    /// A row, in the frame.
    Row,
    /// A column, in the frame.
    Column,
    /// The end of the columns; the rows follow.
    Described,
    /// The end of the columns; we have to fetch the rows.
    Opened,
    /// The number of columns.
    Counted(u64),
    /// The end of the rows. With a cursor, it's the end of a portion, and `last` is true for the
    /// last one.
    End { last: bool },
    /// The end of a result's rows, which another answer follows.
    Another,
    /// No rows, and none will follow.
    Done,
    /// The statement has failed, which ends the answer.
    Failed(DatabaseError),
    /// An impossible packet.
    Broken,
}

impl Stage {
    /// Handles the next packet.
    pub(super) fn step(&mut self, wire: &Wire, frame: &Frame) -> Step {
        if frame.tag == ERR {
            return packet::error(wire.body(frame)).map_or(Step::Broken, Step::Failed);
        }
        let is_eof = frame.tag == EOF && frame.len() < EOF_BELOW;
        let status = || packet::eof_status(wire.body(frame));
        match *self {
            Self::Rows if frame.tag == OK => Step::Row,
            Self::Rows if is_eof => match status() {
                Some(status) if status & status::MORE_RESULTS == 0 => {
                    Step::End { last: status & status::LAST_ROW_SENT != 0 }
                }
                Some(_) => {
                    *self = Self::Head;
                    Step::Another
                }
                None => Step::Broken,
            },
            Self::Head if frame.tag == OK => Step::Done,
            Self::Head if matches!(frame.tag, LOCAL_INFILE | EOF) => Step::Broken,
            Self::Head => match Reader(wire.body(frame)).length() {
                Some(columns) => {
                    *self = Self::Columns(columns);
                    Step::Counted(columns)
                }
                None => Step::Broken,
            },
            Self::Columns(left) => {
                *self = if left > 1 { Self::Columns(left - 1) } else { Self::ColumnsEnd };
                Step::Column
            }
            Self::ColumnsEnd if is_eof => match status() {
                Some(status) if status & status::CURSOR_EXISTS != 0 => Step::Opened,
                Some(_) => {
                    *self = Self::Rows;
                    Step::Described
                }
                None => Step::Broken,
            },
            Self::Rows | Self::ColumnsEnd => Step::Broken,
        }
    }
}
