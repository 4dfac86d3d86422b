//! Files in the folder of endpoints that look like endpoints but aren't served. We report them, so
//! that users needn't find out from a 404.

use std::fmt;
use std::path::{Path, PathBuf};

/// A file or folder that isn't served, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnservedFile {
    /// Its path.
    pub path: PathBuf,
    /// Why it isn't served.
    pub reason: Reason,
}

/// Why a file isn't an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Its name, or that of its folder, begins with `_`, which disables it.
    Underscore,
    /// Its name ends in `.SQL` or similar. That may be a mistake, and other systems would read it
    /// as `.sql`.
    Case,
}

impl UnservedFile {
    /// How to have the file served.
    pub(super) fn advice(&self) -> String {
        let name = match self.reason {
            Reason::Underscore => return format!("rename {} if it is to be served", self.path.display()),
            Reason::Case => self.path.with_extension(lower_extension(&self.path)),
        };
        format!("rename {} to `{}`", self.path.display(), name.file_name().unwrap_or_default().display())
    }
}

impl fmt::Display for UnservedFile {
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

/// The extension of a file in lower case, or an empty text.
pub(super) fn lower_extension(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_lowercase()
}
