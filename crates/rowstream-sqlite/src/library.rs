//! The settings of SQLite's library. They apply to the whole process.

use std::ffi::c_int;
use std::ptr;
use std::sync::Once;

use rusqlite::ffi;

/// The length and the number of small allocations that a connection reserves. SQLite's default of
/// 40 uses 48 KB per connection. Further ones use the allocator.
const LOOKASIDE: (c_int, c_int) = (1200, 10);

/// Makes SQLite allocate memory on demand, because there can be hundreds of connections. Must be
/// called before the first connection is opened; later it has no effect.
pub(super) fn configure() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let none = ptr::null_mut::<std::ffi::c_void>();
        #[expect(unsafe_code, reason = "rusqlite has no call for this")]
        // SAFETY: each option has the arguments that SQLite's C reference lists for it
        // (sqlite.org/c3ref/c_config_covering_index_scan.html). No other thread configures SQLite.
        // If the library is already in use, it refuses and changes nothing.
        unsafe {
            // We don't use SQLite's memory statistics, and they need a lock at each allocation.
            ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0 as c_int);
            ffi::sqlite3_config(ffi::SQLITE_CONFIG_LOOKASIDE, LOOKASIDE.0, LOOKASIDE.1);
            // Allocates pages one by one. By default SQLite allocates 20 of them, 87 KB, when it
            // opens a file: more than a connection needs.
            ffi::sqlite3_config(ffi::SQLITE_CONFIG_PAGECACHE, none, 0 as c_int, 0 as c_int);
        }
    });
}
