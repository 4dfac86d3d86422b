//! The hot paths, each as a separate case with data that never change.
//!
//! Three programs run them. `instructions` counts (for `cargo xtask instructions`, which fails when
//! a count grows). For people, the bench `time` measures each case, and the bench `speed` shows how
//! many bytes per second some of them write, compared with a plain copy. It's a separate package,
//! so that neither the tests nor the counts compile criterion.

mod data;
mod encode;
mod mysql;
mod postgres;
mod template;

use std::hint::black_box;

/// One hot path.
pub struct Case {
    /// The name of the case. It begins with the kind of path.
    pub name: &'static str,
    build: Box<dyn FnOnce() -> Pass>,
}

impl Case {
    fn new(name: &'static str, build: impl FnOnce() -> Pass + 'static) -> Self {
        Self { name, build: Box::new(build) }
    }

    /// Generates the data.
    pub fn build(self) -> Pass {
        (self.build)()
    }
}

/// Appends the output of a pass.
type Write = dyn FnMut(&mut Vec<u8>);

/// A hot path with its data.
pub struct Pass {
    /// The number of rows, values or other units that a pass writes.
    pub items: usize,
    write: Box<Write>,
}

impl Pass {
    fn new(items: usize, write: impl FnMut(&mut Vec<u8>) + 'static) -> Self {
        Self { items, write: Box::new(write) }
    }

    /// Replaces the contents of `out` by all items.
    pub fn run(&mut self, out: &mut Vec<u8>) {
        out.clear();
        (self.write)(out);
        black_box(out);
    }

    /// A copy of this pass's output, if all its items are equal. Each is copied from the same text,
    /// which is in the processor's cache.
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
