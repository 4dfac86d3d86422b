//! Tests that need the machine for themselves: they check limits of memory and time, or put load on
//! the server while they run. All other tests are in `tests/it` and `tests/library`.

#[path = "../../examples/delegate/upstream.rs"]
mod delegate;
#[path = "../support/mod.rs"]
mod support;
#[path = "../worked/mod.rs"]
mod worked;

/// `cargo xtask test` separates these tests from the others by this name.
#[path = "."]
mod alone {
    mod attack;
    mod load;
    mod memory;
    mod soak;
}
