//! The answer to a command that has rows, packet by packet.
//!
//! ```text
//!   Head ── how many columns ──► Columns ── the last one ──► ColumnsEnd ── EOF ──► Rows ── EOF ──► done
//!     │                                                          │
//!     └── OK: no rows, or no more ──► done                       └── EOF, of a cursor ──► done
//! ```
//!
//! An ERR in any place ends it. COM_STMT_FETCH is answered from `Rows` on. Behind the rows of a
//! procedure stands what else it answers, from `Head` on, and at last an OK.

use super::error::DatabaseError;
use super::packet::{self, EOF, EOF_BELOW, ERR, LOCAL_INFILE, OK, Reader, status};
use super::wire::{Frame, Wire};

/// What is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Head,
    /// So many columns.
    Columns(u64),
    ColumnsEnd,
    Rows,
}

/// What has come.
#[derive(Debug)]
pub(super) enum Step {
    /// A row, in the frame.
    Row,
    /// A column, in the frame.
    Column,
    /// All columns; the rows follow.
    Described,
    /// All columns; the rows are to be fetched.
    Opened,
    /// How many columns there are.
    Counted(u64),
    /// The last row. Of a cursor: the last of a portion, and whether it was the last.
    End { last: bool },
    /// The last row of a result, behind which another answer stands.
    Another,
    /// No rows, and none to come.
    Done,
    /// The statement has failed, which ends the answer.
    Failed(DatabaseError),
    /// What cannot be.
    Broken,
}

impl Stage {
    /// Takes the next packet.
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
