//! Files in the folder of endpoints that look like endpoints and are none, which nobody should have
//! to find out by a 404.

use std::fmt;
use std::path::{Path, PathBuf};

/// A file or folder that is not served, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unserved {
    /// Its path.
    pub path: PathBuf,
    /// Why it is none.
    pub reason: Reason,
}

/// Why a file is no endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Its name, or that of its folder, begins with `_`: it was put aside.
    Underscore,
    /// Its name ends in `.SQL` or the like. That may not have been meant, and other systems would
    /// take it for `.sql`.
    Case,
}

impl Unserved {
    /// What to do to have it served.
    pub(super) fn advice(&self) -> String {
        let name = match self.reason {
            Reason::Underscore => return format!("rename {} if it is to be served", self.path.display()),
            Reason::Case => self.path.with_extension(lower_extension(&self.path)),
        };
        format!("rename {} to `{}`", self.path.display(), name.file_name().unwrap_or_default().display())
    }
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, advice) = (self.path.display(), self.advice());
        match self.reason {
            Reason::Underscore => write!(f, "note: {path} is not served: its name begins with `_`"),
            Reason::Case => write!(
                f,
                "warning: {path} is not served: names of endpoints end in `.sql` or `.toml`, in small letters\n    hint: {advice}"
            ),
        }
    }
}

/// The ending of a file's name in small letters; empty where it has none.
pub(super) fn lower_extension(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_lowercase()
}
