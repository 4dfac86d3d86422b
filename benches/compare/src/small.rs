//! A small machine: one core and little memory, to the extent that this machine can simulate it.

use std::fs;
use std::path::PathBuf;

use crate::process::words;

/// The limit on a server's memory.
pub(crate) enum Bound {
    /// A control group: resident memory, including the files and the sockets that the kernel adds
    /// to it.
    Group { folder: PathBuf, version: u8 },
    /// Only address space. It's larger than resident memory (stacks of threads, the program
    /// itself), so the limit is four times as large.
    AddressSpace,
}

/// The folders of both versions of control groups, and the file for the limit.
const HIERARCHIES: [(&str, &str, u8); 2] =
    [("/sys/fs/cgroup", "memory.max", 2), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", 1)];

impl Bound {
    /// The strictest limit that's available.
    pub(crate) fn new(bytes: u64) -> Self {
        let name = format!("rowstream-compare-{}", std::process::id());
        for (hierarchy, file, version) in HIERARCHIES {
            let folder = PathBuf::from(hierarchy).join(&name);
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let bound = Self::Group { folder: folder.clone(), version };
            if folder.join(file).is_file() && fs::write(folder.join(file), bytes.to_string()).is_ok() {
                return bound;
            }
        }
        Self::AddressSpace
    }

    /// The words before a server's command line.
    pub(crate) fn prefix(&self, bytes: u64) -> Vec<String> {
        let mut prefix = words(["taskset", "-c", "0"]);
        match self {
            Self::Group { folder, .. } => {
                let enter = format!("echo $$ > '{}/cgroup.procs' && exec \"$@\"", folder.display());
                prefix.extend(words(["sh", "-c", &enter, "sh"]));
            }
            Self::AddressSpace => prefix.extend(words(["prlimit", &format!("--as={}", 4 * bytes), "--"])),
        }
        prefix
    }

    /// For the report.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::Group { version, .. } => {
                format!("A control group (version {version}) limited the memory, and `taskset` the core.")
            }
            Self::AddressSpace => {
                "This machine allows no control group: `prlimit` limited the address space to four times the \
                 memory, and `taskset` the core."
                    .into()
            }
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Self::Group { folder, .. } = self
            && let Err(error) = fs::remove_dir(&*folder)
        {
            eprintln!("cannot remove {}: {error}", folder.display());
        }
    }
}
