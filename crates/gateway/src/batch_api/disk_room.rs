//! The room on the disk of the Batch API's files.
//!
//! A page must not wait for a disk, so a task asks the system for the free bytes in intervals. A
//! refused upload gives its bytes back, and then the disk looks as if it had room. So a write that
//! found none says how much it needed, and the disk counts as full until so much is free.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock;

/// The time between two looks at the disk.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);
/// With less room than this, the database itself cannot be written.
const LEAST_FREE: u64 = 64 << 10;
/// How long the size of a file that found no room is remembered: a file may be larger than the
/// disk will ever have room for.
const NEED_KEPT: Duration = Duration::from_secs(600);

/// See the module's description.
#[derive(Debug)]
pub(super) struct DiskRoom {
    folder: PathBuf,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The free bytes at the last look, if the system could tell them.
    free: Option<u64>,
    unmet: Option<UnmetNeed>,
}

/// A write that found no room.
#[derive(Clone, Copy, Debug)]
struct UnmetNeed {
    /// The file needed at least so many bytes.
    bytes: u64,
    /// Whether a quota refused it, of which the free bytes of the disk say nothing.
    by_quota: bool,
    /// Since 1970.
    at: Duration,
}

// === impl DiskRoom ===

impl DiskRoom {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, seen: Mutex::default() }
    }

    /// Asks the system for the free bytes. It may block, as every access to a disk.
    pub(super) fn look(&self) {
        let free = rustix::fs::statvfs(&self.folder);
        let free = free.map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize)).ok();
        self.note_free(free, clock::since_epoch());
    }

    /// Records a failed write of a file with at least this many bytes, if there was no room.
    pub(super) fn failed(&self, error: &io::Error, bytes: u64) {
        self.note_failed(error, bytes, clock::since_epoch());
    }

    fn note_failed(&self, error: &io::Error, bytes: u64, at: Duration) {
        let by_quota = error.kind() == io::ErrorKind::QuotaExceeded;
        if by_quota || error.kind() == io::ErrorKind::StorageFull {
            self.seen().unmet = Some(UnmetNeed { bytes, by_quota, at });
        }
    }

    /// Records that a file of this size was written.
    pub(super) fn wrote(&self, bytes: u64) {
        let mut seen = self.seen();
        seen.unmet = seen.unmet.filter(|unmet| bytes < unmet.bytes);
    }

    /// Why no file can be written, if the disk is full.
    pub(super) fn error(&self) -> Option<String> {
        let Seen { free, unmet } = *self.seen();
        if let Some(UnmetNeed { by_quota: true, .. }) = unmet {
            return Some("the quota of this user is used up: no space left".to_owned());
        }
        let (free, need) = (free?, unmet.map_or(0, |unmet| unmet.bytes));
        if free >= need.max(LEAST_FREE) {
            return None;
        }
        let needed = match need {
            0 => String::new(),
            need => format!(", and a file needed more than {}", size(need)),
        };
        Some(format!("{} of it are free{needed}", size(free)))
    }

    fn note_free(&self, free: Option<u64>, now: Duration) {
        let mut seen = self.seen();
        seen.free = free;
        let is_open = |unmet: &UnmetNeed| {
            let met = !unmet.by_quota && free.is_some_and(|free| free >= unmet.bytes);
            !met && now.saturating_sub(unmet.at) < NEED_KEPT
        };
        seen.unmet = seen.unmet.filter(is_open);
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A size for people.
fn size(bytes: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = units.into_iter().find(|&(_, unit)| bytes >= unit);
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(name, unit)| format!("{:.1} {name}", bytes as f64 / unit as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn m03_a_disk_is_full_until_it_has_room_for_the_file_that_found_none() {
        let (room, start) = (DiskRoom::new("/".into()), Duration::ZERO);
        let after = |secs: u64| start + Duration::from_secs(secs);
        assert_eq!(room.error(), None, "nothing is known yet");
        room.note_free(Some(0), start);
        assert_eq!(room.error().unwrap(), "0 bytes of it are free");
        room.note_free(Some(5 * MIB), after(2));
        assert_eq!(room.error(), None);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        room.note_failed(&full, 8 * MIB, after(3));
        let text = "5.0 MiB of it are free, and a file needed more than 8.0 MiB";
        assert_eq!(room.error().unwrap(), text);
        room.wrote(MIB);
        room.note_free(Some(5 * MIB), after(60));
        assert_eq!(room.error().unwrap(), text, "the refused upload gave its bytes back");
        room.note_free(Some(9 * MIB), after(62));
        assert_eq!(room.error(), None, "there is room for it");
        room.note_free(Some(5 * MIB), after(64));
        assert_eq!(room.error(), None, "it is forgotten");
        room.note_failed(&full, 8 * MIB, after(70));
        room.wrote(9 * MIB);
        assert_eq!(room.error(), None, "a larger file was written");
        room.note_failed(&full, 8 * MIB, after(80));
        room.note_free(Some(5 * MIB), after(679));
        assert!(room.error().is_some());
        room.note_free(Some(5 * MIB), after(680));
        assert_eq!(room.error(), None, "no such file came for ten minutes");
    }

    #[test]
    fn m03_a_quota_of_a_disk_is_used_up_until_a_file_is_written() {
        let (room, start) = (DiskRoom::new("/".into()), Duration::ZERO);
        let error = io::Error::from(io::ErrorKind::QuotaExceeded);
        room.note_failed(&error, MIB, start);
        room.note_free(Some(9 * MIB), start);
        assert!(room.error().unwrap().contains("quota"), "the disk itself has room");
        room.wrote(MIB);
        assert_eq!(room.error(), None);
        room.note_failed(&io::Error::from(io::ErrorKind::NotFound), MIB, start);
        room.note_free(Some(0), start);
        assert_eq!(room.error().unwrap(), "0 bytes of it are free", "another error is no need");
    }
}
