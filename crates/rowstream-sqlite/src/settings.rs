//! The settings of a source that only SQLite has.

use std::path::{Path, PathBuf};

use rowstream_core::diagnostic::reader::{Value, set};
use rowstream_database::{Elsewhere, OwnSetting};

pub(super) const OWN: &[OwnSetting] = &[
    OwnSetting {
        name: "mmap",
        read: |value, _, settings| set(&mut settings.mmap, value.size()),
        elsewhere: Elsewhere::IgnoredIfChosen,
        hint: "leave it out",
    },
    OwnSetting {
        name: "create",
        read: |value, context, settings| settings.create = read_scripts(value, context.folder),
        elsewhere: Elsewhere::Ignored,
        hint: "leave it out",
    },
];

/// The paths of the scripts, which must exist.
fn read_scripts(value: &Value<'_>, folder: &Path) -> Vec<PathBuf> {
    let scripts = value.strings().unwrap_or_default().into_iter();
    scripts
        .map(|(script, item)| {
            let path = folder.join(&script);
            if !path.is_file() {
                item.error(format!("there is no file {}", item.shown(&script)));
            }
            path
        })
        .collect()
}
