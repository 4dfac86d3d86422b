//! The tests that need the machine for themselves: they hold memory and waits to bounds, or load
//! the server for as long as they run. All others stand in `tests/it`.

#[path = "../../examples/delegate/upstream.rs"]
mod delegate;
#[path = "../support/mod.rs"]
mod support;
#[path = "../worked/mod.rs"]
mod worked;

mod load;
mod memory;
mod soak;
