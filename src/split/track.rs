//! Where a reader stands on the way that a pointer leads.

use crate::pointer::Pointer;

/// How far the place of a reader agrees with a pointer.
///
/// The place of a value in `depth` arrays and objects has `depth` steps. `agreed` of them, from the first on, are the pointer's; the
/// container that a step is made in is on the way if all steps to it are.
#[derive(Debug)]
pub(super) struct Track {
    pointer: Pointer,
    agreed: usize,
    /// For each step, whether the object that it is made in has had the name already.
    seen: Vec<bool>,
}

impl Track {
    pub(super) fn new(pointer: &Pointer) -> Self {
        Self { pointer: pointer.clone(), agreed: 0, seen: vec![false; pointer.tokens().len()] }
    }

    /// How many steps the pointer has.
    pub(super) fn length(&self) -> usize {
        self.pointer.tokens().len()
    }

    /// The name of each step.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.pointer.tokens().iter().map(String::as_str)
    }

    /// Forgets the document before.
    pub(super) fn reset(&mut self) {
        self.agreed = 0;
    }

    /// The name that a member of the innermost object of `depth` must have to lead on; `None` where none does.
    pub(super) fn wanted(&self, depth: usize) -> Option<&str> {
        if self.agreed + 1 < depth { None } else { self.pointer.tokens().get(depth - 1).map(String::as_str) }
    }

    /// Notes that the next value is, or is not, what [`Track::wanted`] names; false where a value was that already.
    pub(super) fn step(&mut self, depth: usize, is_wanted: bool) -> bool {
        if self.agreed + 1 < depth {
            return true;
        }
        self.agreed = depth - usize::from(!is_wanted);
        !is_wanted || !std::mem::replace(&mut self.seen[depth - 1], true)
    }

    /// Whether the value that begins in `depth` containers is the one that the pointer leads to.
    pub(super) fn is_here(&self, depth: usize) -> bool {
        self.agreed == depth && self.pointer.tokens().len() == depth
    }

    /// Notes that a container begins, the innermost of now `depth`.
    pub(super) fn enter(&mut self, depth: usize) {
        if let Some(seen) = self.seen.get_mut(depth - 1) {
            *seen = false;
        }
    }

    /// Notes that a container ends which stood in `depth` others.
    pub(super) fn leave(&mut self, depth: usize) {
        self.agreed = self.agreed.min(depth);
    }
}
