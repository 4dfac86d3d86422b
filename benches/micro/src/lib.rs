//! The hot paths, each as a case that can be run by itself over data that never change.
//!
//! Three programs run them: `instructions` counts (for `cargo xtask instructions`, which fails when
//! a count grows), and for people the bench `time` measures each, and the bench `speed` tells how
//! many bytes some of them write in a second, beside a plain copy. A package of its own, so that
//! criterion is compiled for neither the tests nor the counts.

mod data;
mod encode;
mod mysql;
mod postgres;
mod template;

use std::hint::black_box;

/// One hot path.
pub struct Case {
    /// What is run, the kind of path first.
    pub name: &'static str,
    build: Box<dyn FnOnce() -> Pass>,
}

impl Case {
    fn new(name: &'static str, build: impl FnOnce() -> Pass + 'static) -> Self {
        Self { name, build: Box::new(build) }
    }

    /// Makes the data.
    pub fn build(self) -> Pass {
        (self.build)()
    }
}

/// Appends what a pass writes.
type Write = dyn FnMut(&mut Vec<u8>);

/// A hot path with its data.
pub struct Pass {
    /// Rows, or values, or whatever else a pass writes.
    pub items: usize,
    write: Box<Write>,
}

impl Pass {
    fn new(items: usize, write: impl FnMut(&mut Vec<u8>) + 'static) -> Self {
        Self { items, write: Box::new(write) }
    }

    /// Writes all items into `out`, in the place of what it holds.
    pub fn run(&mut self, out: &mut Vec<u8>) {
        out.clear();
        (self.write)(out);
        black_box(out);
    }

    /// A copy of what this pass writes, where its items are all alike: each is copied from the same
    /// place, as a text that the processor's cache holds.
    pub fn copied(&mut self) -> Self {
        let mut out = Vec::new();
        self.run(&mut out);
        let (items, item) = (self.items, out[..out.len() / self.items].to_vec());
        Self::new(items, move |out| (0..items).for_each(|_| out.extend_from_slice(black_box(&item))))
    }
}

/// Every case.
pub fn cases() -> Vec<Case> {
    [encode::cases(), template::cases(), postgres::cases(), mysql::cases()].into_iter().flatten().collect()
}
