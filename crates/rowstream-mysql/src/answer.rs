//! The answer to a command that has rows, packet by packet.
//!
//! ```text
//!   Head ── number of columns ──► Columns ── the last one ──► ColumnsEnd ── EOF ──► Rows ── EOF ──► done
//!     │                              │                            │                ▲ │
//!     └── OK: no rows, or no more    └── the last one, if an OK replaces EOFs ─────┘ └── OK ──► done
//!          ──► done                                               └── EOF, of a cursor ──► done
//! ```
//!
//! An ERR at any stage ends it. The packet that ends rows also says if the statement has changed its
//! session, so that the connection is closed after the response. The answer to COM_STMT_FETCH begins
//! with `Rows`. After the rows of a procedure, its next answers follow from `Head` on, and finally an
//! OK.

use super::connect::Connection;
use super::error::DatabaseError;
use super::packet::{self, EOF, ERR, LOCAL_INFILE, OK, Reader, status};
use super::wire::Frame;

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
    /// A column, in the frame. After the `last` one, the rows follow, or we have to fetch them.
    Column { last: bool },
    /// The end of the columns; the rows follow.
    Described,
    /// The end of the columns; we have to fetch the rows.
    Opened,
    /// The number of columns.
    Counted(u64),
    /// The end of the rows. With a cursor, it's the end of a portion, and `last` is true for the
    /// last one. `opened` is true if there's a cursor, whose rows we have to fetch.
    End { last: bool, opened: bool },
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
    pub(super) fn step(&mut self, connection: &mut Connection, frame: &Frame) -> Step {
        let body = connection.wire.body(frame);
        if frame.tag == ERR {
            return packet::error(body).map_or(Step::Broken, Step::Failed);
        }
        match *self {
            Self::Rows if connection.is_end(frame) => match connection.end_status(frame) {
                Some(status) if status & status::MORE_RESULTS == 0 => Step::End {
                    last: status & status::LAST_ROW_SENT != 0,
                    opened: status & status::CURSOR_EXISTS != 0,
                },
                Some(_) => {
                    *self = Self::Head;
                    Step::Another
                }
                None => Step::Broken,
            },
            Self::Rows if frame.tag == OK => Step::Row,
            Self::Head if frame.tag == OK => Step::Done,
            Self::Head if matches!(frame.tag, LOCAL_INFILE | EOF) => Step::Broken,
            Self::Head => match Reader(body).length() {
                Some(columns) => {
                    *self = Self::Columns(columns);
                    Step::Counted(columns)
                }
                None => Step::Broken,
            },
            Self::Columns(left) => {
                let last = left <= 1 && !connection.sends_eof;
                *self = match left {
                    2.. => Self::Columns(left - 1),
                    _ if last => Self::Rows,
                    _ => Self::ColumnsEnd,
                };
                Step::Column { last }
            }
            Self::ColumnsEnd if connection.is_end(frame) => match connection.end_status(frame) {
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
