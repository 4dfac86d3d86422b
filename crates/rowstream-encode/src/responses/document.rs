//! JSON that contains streams.
//!
//! Serialising a structure can't wait for a stream. So we serialise it once, before the first byte.
//! Each stream writes a placeholder, and we cut the text there. Items of a stream are treated the
//! same way, so they can contain streams too.
//!
//! A placeholder is a [`RawValue`]. `serde_json` passes only the text of raw values to the
//! formatter unchanged. We recognise the placeholder by its address. It's alive during that time,
//! so no other text can have this address, whatever its contents. This fails if a serializer
//! between us and `serde_json` keeps a copy for later (some uses of `serde(flatten)` and
//! `serde(tag)`). We detect that at once and return an error.

use std::cell::{Cell, RefCell};
use std::io;
use std::mem;
use std::ptr;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::ser::Formatter;
use serde_json::value::RawValue;

use super::StreamError;
use super::chunks::{Piece, Pieces};
use super::streamed::NextItem;

/// The error for a stream inside a value that serde buffers.
const LOST: &str =
    "a stream cannot stand here: serde buffers the enums that are flattened or tagged around it";

/// A JSON document, or the items of one stream in another framing.
pub(super) struct Document {
    /// A stack; the next step is last.
    steps: Vec<Step>,
}

enum Step {
    Text(Vec<u8>),
    List(List),
}

impl Document {
    /// Serialises `value` and cuts it at its streams.
    ///
    /// # Errors
    /// `value` can't be JSON, or contains a stream in a value that serde buffers.
    pub(super) fn new<T: Serialize>(value: &T, whitespace: Whitespace) -> Result<Self, StreamError> {
        let mut text = Vec::new();
        let cuts = write_json(value, whitespace, &mut text)?;
        let mut document = Self { steps: Vec::new() };
        document.push_cut(text, 0, cuts);
        Ok(document)
    }

    /// Only the items of `list`.
    pub(super) fn of_list(list: List) -> Self {
        Self { steps: vec![Step::List(list)] }
    }

    /// Pushes `text`, cut at `cuts`, before all other steps. `begin` is the position where it was
    /// written.
    fn push_cut(&mut self, mut text: Vec<u8>, begin: usize, cuts: Vec<ListCut>) {
        for cut in cuts.into_iter().rev() {
            self.steps.push(Step::Text(text.split_off(cut.at - begin)));
            self.steps.push(Step::List(cut.list));
        }
        self.steps.push(Step::Text(text));
    }
}

impl Pieces for Document {
    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Option<Result<Piece, StreamError>>> {
        let list = match self.steps.last_mut() {
            None => return Poll::Ready(None),
            Some(Step::Text(text)) => {
                out.append(text);
                self.steps.pop();
                return Poll::Ready(Some(Ok(Piece::Frame)));
            }
            Some(Step::List(list)) => list,
        };
        let begin = out.len();
        let (framing, is_in_item) = (list.framing, list.is_in_item);
        match ready!(list.poll_item(cx, out)).transpose()? {
            None => {
                list.end(out);
                self.steps.pop();
                return Poll::Ready(Some(Ok(Piece::Frame)));
            }
            Some(cuts) if cuts.is_empty() => {
                out.extend_from_slice(framing.after());
                let is_heartbeat = framing == ItemFraming::Events && out[begin..].starts_with(b":");
                if is_heartbeat {
                    return Poll::Ready(Some(Ok(Piece::Item)));
                }
            }
            Some(mut cuts) => {
                for cut in &mut cuts {
                    cut.list.is_in_item = is_in_item || framing != ItemFraming::Value;
                }
                self.steps.push(Step::Text(framing.after().to_vec()));
                self.push_cut(out.split_off(begin), begin, cuts);
            }
        }
        Poll::Ready(Some(Ok(framing.piece(is_in_item))))
    }
}

/// The bytes around the items of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemFraming {
    /// A JSON array.
    Array,
    /// A JSON value, from exactly one item.
    Value,
    /// One item per line.
    Lines,
    /// A blank line after each item.
    Events,
}

impl ItemFraming {
    fn after(self) -> &'static [u8] {
        match self {
            Self::Array | Self::Value => b"",
            Self::Lines => b"\n",
            Self::Events => b"\n\n",
        }
    }

    fn piece(self, is_in_item: bool) -> Piece {
        match self {
            Self::Array | Self::Lines | Self::Events if is_in_item => Piece::Item,
            Self::Array | Self::Lines | Self::Events => Piece::Row,
            Self::Value => Piece::Frame,
        }
    }
}

/// Appends the next item and returns the streams in it, or `None` after the last one.
type ItemWriter = Box<
    dyn FnMut(&mut Context<'_>, Whitespace, &mut Vec<u8>) -> Poll<Option<Result<Vec<ListCut>, StreamError>>>
        + Send,
>;

/// A stream with items of any type.
pub(super) struct List {
    write_next: ItemWriter,
    framing: ItemFraming,
    /// The whitespace around the list.
    whitespace: Whitespace,
    /// An item was written.
    begun: bool,
    /// The list is a part of another list's item.
    is_in_item: bool,
}

impl List {
    /// The items of `next`. `write` appends an item and returns the streams in it.
    pub(super) fn new<T: 'static>(
        mut next: NextItem<T>,
        framing: ItemFraming,
        whitespace: Whitespace,
        write: impl Fn(&T, Whitespace, &mut Vec<u8>) -> Result<Vec<ListCut>, StreamError> + Send + 'static,
    ) -> Self {
        let write_next = move |cx: &mut Context<'_>, whitespace: Whitespace, out: &mut Vec<u8>| {
            let item = ready!(next(cx));
            Poll::Ready(item.map(|item| write(&item.map_err(StreamError::stream)?, whitespace, out)))
        };
        Self { write_next: Box::new(write_next), framing, whitespace, begun: false, is_in_item: false }
    }

    /// Appends the next item and the separator before it, or nothing after the last item.
    fn poll_item(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Option<Result<Vec<ListCut>, StreamError>>> {
        let begin = out.len();
        let polled = match self.framing {
            ItemFraming::Array => {
                let whitespace = self.whitespace.inner();
                out.push(if self.begun { b',' } else { b'[' });
                whitespace.begin_line(out);
                (self.write_next)(cx, whitespace, out)
            }
            ItemFraming::Value | ItemFraming::Lines | ItemFraming::Events => {
                (self.write_next)(cx, self.whitespace, out)
            }
        };
        match polled {
            Poll::Ready(Some(_)) => self.begun = true,
            Poll::Ready(None) | Poll::Pending => out.truncate(begin),
        }
        polled
    }

    /// Appends the text after the last item.
    fn end(&self, out: &mut Vec<u8>) {
        match self.framing {
            ItemFraming::Array if self.begun => {
                self.whitespace.begin_line(out);
                out.push(b']');
            }
            ItemFraming::Array => out.extend_from_slice(b"[]"),
            ItemFraming::Value | ItemFraming::Lines | ItemFraming::Events => {}
        }
    }
}

/// A stream, and its position in a buffer.
pub(super) struct ListCut {
    at: usize,
    list: List,
}

/// The whitespace of a JSON document. JSON that a value contains as text ([`RawValue`]) is written
/// unchanged, except on one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whitespace {
    Compact,
    /// Compact, and line breaks of raw JSON become spaces. Both are whitespace between tokens, and a
    /// JSON string can't contain a raw line break.
    OneLine,
    /// Like [`serde_json::to_string_pretty`], within so many lists and objects.
    Indented {
        depth: usize,
    },
}

impl Whitespace {
    /// The whitespace within a list or an object.
    fn inner(self) -> Self {
        match self {
            Self::Compact | Self::OneLine => self,
            Self::Indented { depth } => Self::Indented { depth: depth + 1 },
        }
    }

    /// The whitespace after the end of a list or an object.
    fn outer(self) -> Self {
        match self {
            Self::Compact | Self::OneLine => self,
            Self::Indented { depth } => Self::Indented { depth: depth.saturating_sub(1) },
        }
    }

    /// Begins a line, if this whitespace has several.
    fn begin_line(self, out: &mut Vec<u8>) {
        if let Self::Indented { depth } = self {
            out.push(b'\n');
            out.resize(out.len() + INDENT * depth, b' ');
        }
    }
}

/// Spaces per level, as many as `serde_json` writes.
const INDENT: usize = 2;

/// Appends the JSON of `value` without its streams, and returns the streams in order.
///
/// # Errors
/// `value` can't be JSON, or contains a stream in a value that serde buffers. `out` may then end
/// with half a value.
pub(super) fn write_json<T: Serialize>(
    value: &T,
    whitespace: Whitespace,
    out: &mut Vec<u8>,
) -> Result<Vec<ListCut>, StreamError> {
    let scope = CollectorScope::begin(whitespace);
    let written = Cell::new(out.len());
    let writer = CountedBuffer { out, written: &written };
    let cutter = Cutter { written: &written, whitespace, has_value: false };
    let mut serializer = serde_json::Serializer::with_formatter(writer, cutter);
    value.serialize(&mut serializer).map_err(StreamError::unserialisable)?;
    Ok(scope.end())
}

thread_local! {
    /// The state of the [`write_json`] that runs on this thread.
    static COLLECTOR: RefCell<Option<Collector>> = const { RefCell::new(None) };
}

struct Collector {
    whitespace: Whitespace,
    /// The stream whose placeholder is being serialised.
    waiting: Option<PendingList>,
    cuts: Vec<ListCut>,
}

/// Keeps the placeholder alive, so that no other text can have its address.
struct PendingList {
    placeholder: Rc<RawValue>,
    list: List,
}

/// Collects streams until it's dropped. Then the outer serialisation continues.
struct CollectorScope {
    around: Option<Collector>,
}

impl CollectorScope {
    fn begin(whitespace: Whitespace) -> Self {
        Self { around: COLLECTOR.replace(Some(Collector { whitespace, waiting: None, cuts: Vec::new() })) }
    }

    /// Returns the streams that were found.
    fn end(self) -> Vec<ListCut> {
        let take = |collector: &mut Option<Collector>| Some(mem::take(&mut collector.as_mut()?.cuts));
        COLLECTOR.with_borrow_mut(take).unwrap_or_default()
    }
}

impl Drop for CollectorScope {
    fn drop(&mut self) {
        COLLECTOR.set(self.around.take());
    }
}

/// The whitespace of the document while streams are collected, otherwise `None`.
pub(super) fn collecting() -> Option<Whitespace> {
    COLLECTOR.with_borrow(|collector| collector.as_ref().map(|collector| collector.whitespace))
}

/// Serialises the placeholder of `list`.
///
/// # Errors
/// Those of the serializer, and if the placeholder didn't reach the formatter of [`write_json`].
pub(super) fn stand_in<S: Serializer>(list: List, serializer: S) -> Result<S::Ok, S::Error> {
    let placeholder = RawValue::from_string("null".to_owned()).map_err(S::Error::custom)?;
    let placeholder: Rc<RawValue> = Rc::from(placeholder);
    set_waiting(Some(PendingList { placeholder: Rc::clone(&placeholder), list }));
    let serialised = RawValue::serialize(&placeholder, serializer);
    match set_waiting(None) {
        None => serialised,
        Some(_) => serialised.and_then(|_| Err(S::Error::custom(LOST))),
    }
}

/// Returns the previous value.
fn set_waiting(waiting: Option<PendingList>) -> Option<PendingList> {
    COLLECTOR.with_borrow_mut(|collector| mem::replace(&mut collector.as_mut()?.waiting, waiting))
}

/// Records that the waiting stream's position is `at`, if `fragment` is its placeholder.
fn cut(fragment: &str, at: usize, whitespace: Whitespace) -> bool {
    COLLECTOR.with_borrow_mut(|collector| {
        let Some(collector) = collector else { return false };
        let placed = collector.waiting.take_if(|waiting| ptr::eq(waiting.placeholder.get(), fragment));
        let cut = placed.map(|waiting| ListCut { at, list: List { whitespace, ..waiting.list } });
        let found = cut.is_some();
        collector.cuts.extend(cut);
        found
    })
}

/// Writes JSON, and nothing for a placeholder.
struct Cutter<'a> {
    written: &'a Cell<usize>,
    /// The whitespace at this place.
    whitespace: Whitespace,
    /// True if a value precedes this place in its list or object.
    has_value: bool,
}

impl Cutter<'_> {
    fn open<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.whitespace = self.whitespace.inner();
        self.has_value = false;
        writer.write_all(bracket)
    }

    fn close<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.whitespace = self.whitespace.outer();
        if self.has_value {
            self.begin_line(writer)?;
        }
        writer.write_all(bracket)
    }

    fn begin_item<W: ?Sized + io::Write>(&self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        self.begin_line(writer)
    }

    #[inline]
    fn begin_line<W: ?Sized + io::Write>(&self, writer: &mut W) -> io::Result<()> {
        if let Whitespace::Indented { depth } = self.whitespace {
            writer.write_all(b"\n")?;
            (0..depth).try_for_each(|_| writer.write_all(&[b' '; INDENT]))?;
        }
        Ok(())
    }
}

impl Formatter for Cutter<'_> {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.begin_item(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.begin_item(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        match self.whitespace {
            Whitespace::Compact | Whitespace::OneLine => writer.write_all(b":"),
            Whitespace::Indented { .. } => writer.write_all(b": "),
        }
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }

    fn write_raw_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if cut(fragment, self.written.get(), self.whitespace) {
            return Ok(());
        }
        match self.whitespace {
            Whitespace::Compact | Whitespace::Indented { .. } => writer.write_all(fragment.as_bytes()),
            Whitespace::OneLine => writer.write_all(fragment.replace(['\r', '\n'], " ").as_bytes()),
        }
    }
}

/// Appends to a buffer, and publishes its length.
struct CountedBuffer<'a> {
    out: &'a mut Vec<u8>,
    written: &'a Cell<usize>,
}

impl io::Write for CountedBuffer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    /// JSON is written in pieces of a few bytes, and the default loop around `write` would be the
    /// main cost.
    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.extend_from_slice(bytes);
        self.written.set(self.out.len());
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Rc<RawValue> {
        Rc::from(RawValue::from_string(json.to_owned()).unwrap())
    }

    /// Between us and `serde_json`, a serializer may write anything before the placeholder.
    #[test]
    fn only_the_placeholder_itself_is_cut() {
        let scope = CollectorScope::begin(Whitespace::Compact);
        let placeholder = raw("null");
        let write = |(): &(), _, _: &mut Vec<u8>| Ok(Vec::new());
        let list = List::new(Box::new(|_| Poll::Ready(None)), ItemFraming::Array, Whitespace::Compact, write);
        set_waiting(Some(PendingList { placeholder: Rc::clone(&placeholder), list }));
        for other in ["null", "", RawValue::NULL.get(), raw("null").get(), &placeholder.get()[..2]] {
            assert!(!cut(other, 1, Whitespace::Compact));
        }
        assert!(cut(placeholder.get(), 2, Whitespace::Compact));
        assert!(!cut(placeholder.get(), 3, Whitespace::Compact));
        assert!(set_waiting(None).is_none());
        assert_eq!(scope.end().iter().map(|cut| cut.at).collect::<Vec<_>>(), [2]);
    }
}
