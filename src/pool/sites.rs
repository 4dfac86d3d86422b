//! Where the places of a pool are.

use std::time::Instant;

use crate::Error;

/// Where the places of a pool are: those of a database are all [`Alike`], and those of an upstream
/// are at its hosts. They choose the site of a place, and keep no order of those who wait.
///
/// The pool calls all of this under its lock.
pub trait Sites: Send + 'static {
    /// Which sites suit somebody.
    type Wish: Send;
    /// A site that was chosen.
    type At;
    /// A site at which a place is in use.
    type Site: Send;

    /// Which site somebody may have now.
    fn choose(&self, wish: &Self::Wish) -> Choice<Self::At>;

    /// A place at a site that was chosen is taken.
    fn begin(&mut self, at: Self::At) -> Self::Site;

    /// The place is given up.
    fn end(&mut self, site: &Self::Site);

    /// When those who wait may find room though no place is given up until then.
    fn next_room(&self) -> Option<Instant>;
}

/// Where somebody may have a place.
#[derive(Debug)]
pub enum Choice<T> {
    /// There.
    At(T),
    /// Where it suits there is no room; it may suit others elsewhere.
    Full,
    /// There is no room, whatever suits.
    FullForAll,
    /// There is nothing to wait for.
    Nowhere(Error),
}

/// Places of which each is as good as any other.
#[derive(Debug, Clone, Copy)]
pub struct Alike;

impl Sites for Alike {
    type Wish = ();
    type At = ();
    type Site = ();

    fn choose(&self, (): &()) -> Choice<()> {
        Choice::At(())
    }

    fn begin(&mut self, (): ()) {}

    fn end(&mut self, (): &()) {}

    fn next_room(&self) -> Option<Instant> {
        None
    }
}
