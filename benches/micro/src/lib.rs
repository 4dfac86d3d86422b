//! The hot paths, each as a case that can be run by itself over data that never change.
//!
//! Two programs run them: `instructions` counts (for `cargo xtask instructions`, which fails when a count grows), and
//! the bench `time` measures, for people. A package of its own, so that criterion is compiled for neither the tests nor the counts.

mod data;
mod encode;

use std::hint::black_box;

/// One hot path over its data.
pub struct Case {
    /// What is run, the format or the type first.
    pub name: &'static str,
    /// What a pass writes: so many rows, or values.
    pub items: usize,
    pass: Box<dyn FnMut(&mut Vec<u8>)>,
}

impl Case {
    fn new(name: &'static str, items: usize, pass: impl FnMut(&mut Vec<u8>) + 'static) -> Self {
        Self { name, items, pass: Box::new(pass) }
    }

    /// Writes all items into `out`, in the place of what it holds.
    pub fn run(&mut self, out: &mut Vec<u8>) {
        out.clear();
        (self.pass)(out);
        black_box(out);
    }
}

/// Every case, in the order of the printed table.
pub fn cases() -> Vec<Case> {
    encode::cases()
}
