//! Installs packages that tests need below `target/`, by a pinned list. Installs them again when
//! the list changes.
//!
//! A lock protects the installation, because several runs can overlap. An incomplete installation
//! is repeated.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::Result;

/// Returns `target/NAME/PRODUCT` once `target/NAME` matches the files in `pins`. `make` fills that
/// folder, which may contain an older installation.
pub(crate) fn prepare(
    target: &Path,
    (name, product): (&str, &str),
    pins: &[PathBuf],
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let wanted = pins.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?.concat();
    let folder = target.join(name);
    let _lock = lock(&target.join(format!("{name}.lock")))?;
    let (product, made) = (folder.join(product), folder.join("made-of.txt"));
    if read(&made).is_ok_and(|made| made == wanted) && product.exists() {
        return Ok(product);
    }
    eprintln!("installing {name}");
    make(&folder)?;
    // Written last, so that an incomplete installation is repeated.
    fs::write(&made, wanted).map_err(|error| format!("{}: {error}", made.display()))?;
    Ok(product)
}

/// Holds the lock until the file is dropped.
pub(crate) fn lock(path: &Path) -> Result<File> {
    let cannot = |error| format!("cannot lock {}: {error}", path.display());
    let file = File::create(path).map_err(cannot)?;
    file.lock().map_err(cannot)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pinned_is_made_once_and_again_when_the_pins_change() {
        let target = std::env::temp_dir().join(format!("rowstream-installed-{}", std::process::id()));
        fs::create_dir_all(&target).unwrap();
        let pins = [target.join("pins.txt")];
        let prepare = |made: Result<()>| {
            let mut times = 0;
            let outcome = prepare(&target, ("thing", "part"), &pins, |folder| {
                times += 1;
                fs::create_dir_all(folder.join("part")).unwrap();
                made
            });
            (outcome.is_ok(), times)
        };
        fs::write(&pins[0], "one").unwrap();
        assert_eq!(prepare(Err("there is no network".into())), (false, 1));
        assert_eq!(prepare(Ok(())), (true, 1));
        assert_eq!(prepare(Ok(())), (true, 0));
        fs::write(&pins[0], "two").unwrap();
        assert_eq!(prepare(Ok(())), (true, 1));
        fs::remove_dir(target.join("thing/part")).unwrap();
        assert_eq!(prepare(Ok(())), (true, 1));
        fs::remove_dir_all(&target).unwrap();
    }
}
