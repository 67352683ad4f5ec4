//! What the system lets the process have: open files and memory.

use std::path::{Path, PathBuf};

use rlimit::Resource;

/// How many files the process may open, and what they are for. A connection is an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFiles {
    pub(crate) most: usize,
}

/// Files for anything but clients and backends: listeners, runtimes, logs, stores, status pages.
const OWN_MIN: usize = 48;
const OWN_MAX: usize = 512;
/// The most connections to backends for which room is kept.
const BACKENDS_MAX: usize = 8192;

/// The most connections of clients, where the operator sets no limit, and a number of which a
/// gateway that takes fewer should say so.
const CLIENTS_MAX: usize = 32_768;
const CLIENTS_EXPECTED: usize = 1024;

/// The most requests at one time that only read.
const READS_MAX: usize = 256;
/// The most health checks and scrapes at one time.
const PROBES_MAX: usize = 64;
/// A dispatcher beside a gateway has one part in this many of the connections to backends.
const DISPATCH_SHARE: usize = 4;

/// Where Linux shows control groups of the second version and those of the first for memory.
const GROUPS: &str = "/sys/fs/cgroup";
const MEMORY_GROUPS: &str = "/sys/fs/cgroup/memory";

/// The memory that the process may use, in bytes: the least of what the machine has, what its
/// control groups allow, and its own limits. `None` if nothing is known.
pub(crate) fn memory() -> Option<u64> {
    let of = |resource: Resource| resource.get_soft().ok();
    let own = [Resource::AS, Resource::DATA].into_iter().filter_map(of);
    let own = own.filter(|&bytes| bytes != rlimit::INFINITY);
    own.chain(granted_memory(|path| std::fs::read_to_string(path).ok())).min()
}

/// What the machine and the control groups allow. `read` reads a file.
fn granted_memory(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
    });
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let allowed = groups.lines().flat_map(group_files);
    // A group without a limit has the word `max` or a number beyond all memory.
    let allowed = allowed.filter_map(|path| read(&path)?.trim().parse().ok());
    machine.into_iter().chain(allowed).min()
}

/// The files with the limits of a group and of those above it, from a line such as `0::/a/b` or
/// `4:memory:/a/b`. In a container the path may be that outside, where only the top exists.
fn group_files(line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (root, file) = match controllers {
        "" => (GROUPS, "memory.max"),
        names if names.split(',').any(|name| name == "memory") => {
            (MEMORY_GROUPS, "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let above = Path::new(path.trim_start_matches('/')).ancestors();
    above.map(|group| Path::new(root).join(group).join(file)).collect()
}

// === impl OpenFiles ===

impl OpenFiles {
    /// Raises the limit as far as the system allows: every client is an open file, and the usual
    /// limit is a thousand.
    pub(crate) fn raise() {
        if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
            tracing::warn!(%error, "the limit of open files stays as it is");
        }
    }

    /// The present limit.
    pub(crate) fn now() -> Self {
        let most = Resource::NOFILE.get_soft().ok().and_then(|most| usize::try_from(most).ok());
        Self { most: most.unwrap_or(usize::MAX) }
    }

    /// The most connections of clients: what is configured, if there are files for as many beside
    /// those for backends and for the process itself.
    pub(crate) fn clients(self, configured: Option<usize>) -> usize {
        let configured = configured.unwrap_or(CLIENTS_MAX);
        let rest = self.most.saturating_sub(self.own());
        configured.min((rest - (rest / 2).min(BACKENDS_MAX)).max(1))
    }

    /// The most connections to backends: what clients leave, and less beside a dispatcher.
    pub(crate) fn backends(self, configured: Option<usize>, dispatches: bool) -> usize {
        let left = self.left(configured);
        (left - if dispatches { left / DISPATCH_SHARE } else { 0 }).max(1)
    }

    /// The most requests of a dispatcher at one time. A process may have two dispatchers.
    pub(crate) fn workers(self, configured: Option<usize>, beside_gateway: bool) -> usize {
        let left = match beside_gateway {
            true => self.left(configured) / DISPATCH_SHARE,
            false => self.most.saturating_sub(self.own()),
        };
        (left / 2).max(1)
    }

    /// The most requests at one time that only read: they wait in no queue, so they leave files to
    /// those that do.
    pub(crate) fn reads(self, configured: Option<usize>) -> usize {
        (self.left(configured) / 2).clamp(1, READS_MAX)
    }

    /// The most health checks and scrapes at one time.
    pub(crate) fn probes(self) -> usize {
        (self.own() / 8).min(PROBES_MAX)
    }

    /// The files that are left for other connections.
    fn left(self, configured: Option<usize>) -> usize {
        self.most.saturating_sub(self.own()).saturating_sub(self.clients(configured))
    }

    /// How many connections of clients an operator may expect that do not fit: those that are
    /// configured, or else a number that every gateway should take.
    pub(crate) fn missing(self, configured: Option<usize>) -> Option<usize> {
        let expected = configured.unwrap_or(CLIENTS_EXPECTED);
        (self.clients(configured) < expected).then_some(expected)
    }

    /// The most connections to the status pages at an address of their own: half of the files for
    /// the process itself.
    pub(crate) fn pages(self, configured: usize) -> usize {
        configured.min((self.own() / 2).max(1))
    }

    fn own(self) -> usize {
        (self.most / 4).clamp(OWN_MIN, OWN_MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn x03_connections_fit_the_files_that_may_be_open() {
        let clients = |most| OpenFiles { most }.clients(None);
        for (most, expected) in [(0, 1), (64, 8), (256, 96), (1024, 384), (65_536, 32_768)] {
            assert_eq!(clients(most), expected, "{most}");
        }
        assert_eq!(clients(usize::MAX), 32_768);
        for most in [64, 100, 256, 1024, 20_000] {
            let files = OpenFiles { most };
            for configured in [None, Some(1), Some(usize::MAX)] {
                let clients = files.clients(configured);
                let own = files.pages(1024) + files.probes();
                let backends = files.backends(configured, false);
                assert!(clients + backends + own <= most, "{most}");
                let backends = files.backends(configured, true);
                let workers = 2 * files.workers(configured, true);
                assert!(clients + backends + workers + own <= most, "{most}");
                assert!(files.reads(configured) <= backends);
            }
            assert!(2 * files.workers(None, false) + files.pages(1024) <= most, "{most}");
        }
        let files = OpenFiles { most: usize::MAX };
        assert_eq!((files.reads(None), files.probes()), (256, 64));
        let missing = |most, configured| OpenFiles { most }.missing(configured);
        assert_eq!(OpenFiles { most: 256 }.clients(Some(10)), 10);
        assert_eq!((missing(256, Some(10)), missing(256, Some(97))), (None, Some(97)));
        assert_eq!((missing(20_000, None), missing(1024, None)), (None, Some(1024)));
        assert_eq!(OpenFiles { most: 256 }.pages(1024), 32);
    }

    #[test]
    fn x03_memory_is_what_the_narrowest_group_allows() {
        let of = |files: &[(&str, &str)]| {
            let files: BTreeMap<&str, &str> = files.iter().copied().collect();
            granted_memory(|path| files.get(path.to_str()?).map(|text| (*text).to_owned()))
        };
        let machine = ("/proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\n");
        let own = ("/proc/self/cgroup", "4:cpu:/x\n3:memory,misc:/pod/one\n0::/pod/one\n");
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[machine, own]), Some(1_024_000));
        let max = ("/sys/fs/cgroup/pod/one/memory.max", "max\n");
        assert_eq!(of(&[machine, own, max]), Some(1_024_000));
        for file in [
            "/sys/fs/cgroup/pod/one/memory.max",
            "/sys/fs/cgroup/pod/memory.max",
            "/sys/fs/cgroup/memory.max",
            "/sys/fs/cgroup/memory/pod/one/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        ] {
            assert_eq!(of(&[machine, own, max, (file, "5000\n")]), Some(5000), "{file}");
        }
        let beyond = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(of(&[machine, own, beyond]), Some(1_024_000));
    }
}
