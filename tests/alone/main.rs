//! The tests that need the machine for themselves: they hold memory and waits to bounds, or load
//! the server for as long as they run. All others stand in `tests/it`.

#[path = "../../examples/delegate/upstream.rs"]
mod delegate;
#[path = "../support/mod.rs"]
mod support;
#[path = "../worked/mod.rs"]
mod worked;

/// By this name `cargo xtask test` keeps them apart from all others.
#[path = "."]
mod alone {
    mod attack;
    mod load;
    mod memory;
    mod soak;
}
