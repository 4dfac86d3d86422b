//! The sites of a pool's slots, such as the hosts of an upstream.

use std::time::Instant;

use crate::Error;

/// The sites of a pool's slots. Those of a database are all [`UniformSites`]; those of an upstream
/// are at its hosts. An implementation chooses the site of a slot, and doesn't know the order of
/// the waiters.
///
/// The pool calls all of these functions under its lock.
pub trait Sites: Send + 'static {
    /// Says which sites suit a request.
    type Wish: Send;
    /// A chosen site.
    type ChosenSite;
    /// The site of a slot in use.
    type Site: Send;

    /// Chooses the site that a request may have now.
    fn choose(&self, wish: &Self::Wish) -> Choice<Self::ChosenSite>;

    /// Takes a slot at a chosen site.
    fn begin(&mut self, at: Self::ChosenSite) -> Self::Site;

    /// Gives the slot up.
    fn end(&mut self, site: &Self::Site);

    /// The next moment at which waiters may find room although no slot was freed.
    fn next_room(&self) -> Option<Instant>;
}

/// The result of the choice of a site.
#[derive(Debug)]
pub enum Choice<T> {
    /// A slot is free at this site.
    At(T),
    /// The sites that suit this request are full; other requests may find room elsewhere.
    Full,
    /// All sites are full, for every request.
    FullForAll,
    /// No site will suit, so waiting is useless.
    Nowhere(Error),
}

/// Slots that don't differ.
#[derive(Debug, Clone, Copy)]
pub struct UniformSites;

impl Sites for UniformSites {
    type Wish = ();
    type ChosenSite = ();
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
