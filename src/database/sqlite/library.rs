//! The settings of SQLite's library, which are those of the process.

use std::ffi::c_int;
use std::ptr;
use std::sync::Once;

use rusqlite::ffi;

/// Small allocations that a connection keeps for itself: their length, and how many. SQLite has 40
/// by default, which are 48 KB for each connection. Whoever needs more asks the allocator.
const LOOKASIDE: (c_int, c_int) = (1200, 10);

/// Has SQLite take memory as it is needed, because there may be hundreds of connections. It has an
/// effect only before the first of them is opened.
pub(super) fn configure() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let none = ptr::null_mut::<std::ffi::c_void>();
        #[expect(unsafe_code, reason = "rusqlite has no call for this")]
        // SAFETY: each option has the arguments that SQLite's C reference lists for it
        // (sqlite.org/c3ref/c_config_covering_index_scan.html). No other thread configures. Where
        // the library is in use already, it refuses and changes nothing.
        unsafe {
            // Nobody asks how much memory SQLite takes, and counting it takes a lock at each
            // allocation.
            ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0 as c_int);
            ffi::sqlite3_config(ffi::SQLITE_CONFIG_LOOKASIDE, LOOKASIDE.0, LOOKASIDE.1);
            // Pages one by one: 20 of them, 87 KB, were taken when a file was opened, more than a
            // connection may keep.
            ffi::sqlite3_config(ffi::SQLITE_CONFIG_PAGECACHE, none, 0 as c_int, 0 as c_int);
        }
    });
}
