//! A small machine: one core and little memory, as far as this machine lets us take them away.

use std::fs;
use std::path::PathBuf;

use crate::process::words;

/// What bounds the memory of a server.
pub(crate) enum Bound {
    /// A control group: resident memory, with the files and the sockets that the kernel counts to
    /// it.
    Group { folder: PathBuf, version: u8 },
    /// Address space alone. It is larger than what is resident (stacks of threads, the program
    /// itself), so it is bound at four times as much.
    AddressSpace,
}

/// Where the control groups of both versions are, and the file that takes the bound.
const HIERARCHIES: [(&str, &str, u8); 2] =
    [("/sys/fs/cgroup", "memory.max", 2), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", 1)];

impl Bound {
    /// The strictest that is to be had.
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

    /// What goes before a server's command line.
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
                format!("The memory was bound by a control group (version {version}), the core by `taskset`.")
            }
            Self::AddressSpace => {
                "There was no control group to be had: the address space was bound, at four times the memory, by `prlimit`, \
                 the core by `taskset`."
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
