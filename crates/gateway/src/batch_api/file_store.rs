//! The content of files, in a folder, each under the id of its row.
//!
//! A file is written to a drafts folder, flushed and moved to its path; only then it gets a row. A
//! file without a row is therefore a leftover of a crash, and is deleted at the start. No text of a
//! client ever becomes part of a path.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::disk_room::DiskRoom;

/// The size of the write buffer.
const BUFFER: usize = 256 << 10;

/// The folder of all files.
#[derive(Debug)]
pub(super) struct FileStore {
    files: PathBuf,
    drafts: PathBuf,
    /// The most bytes of all files, and the bytes that are stored or reserved.
    limit: u64,
    used: AtomicU64,
    room: DiskRoom,
}

/// A file that is being written. It is deleted on drop, unless it was kept.
#[derive(Debug)]
pub(super) struct Draft {
    files: Arc<FileStore>,
    id: String,
    writer: Option<BufWriter<File>>,
    written: u64,
}

/// The prefix of file ids, and the least number of characters after it.
pub(super) const FILE_PREFIX: &str = "file-";
const ID_MIN: usize = 16;

/// The bytes that an upload has reserved; released on drop, unless the file was kept.
#[derive(Debug)]
pub(super) struct Reservation {
    files: Arc<FileStore>,
    bytes: u64,
}

// === impl FileStore ===

impl FileStore {
    /// Opens a folder, and creates it if it is missing.
    pub(super) fn open(folder: &Path, limit: u64) -> io::Result<Arc<Self>> {
        let mut builder = fs::DirBuilder::new();
        // Prompts and responses are private: no access for other users.
        builder.recursive(true).mode(0o700);
        let (files, drafts) = (folder.join("files"), folder.join("drafts"));
        builder.create(&files)?;
        builder.create(&drafts)?;
        // Messages name files by their absolute path, because the next process may start elsewhere.
        let (files, drafts) = (files.canonicalize()?, drafts.canonicalize()?);
        let room = DiskRoom::new(files.clone());
        Ok(Arc::new(Self { files, drafts, limit, used: AtomicU64::new(0), room }))
    }

    /// Deletes the leftovers of a crash: drafts, and files without a row. `used` is the size of the
    /// files with a row.
    pub(super) fn tidy(&self, known: &BTreeSet<String>, used: u64) -> io::Result<usize> {
        self.used.store(used, Ordering::Relaxed);
        let drafts = remove_unwanted(&self.drafts, |_| true)?;
        Ok(drafts + remove_unwanted(&self.files, |name| !known.contains(name))?)
    }

    /// The path of a file.
    pub(super) fn path(&self, id: &str) -> PathBuf {
        self.files.join(id)
    }

    /// The room on the disk.
    pub(super) fn room(&self) -> &DiskRoom {
        &self.room
    }

    /// Creates a draft.
    pub(super) fn draft(self: &Arc<Self>, id: &str) -> io::Result<Draft> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(self.drafts.join(id))?;
        let writer = Some(BufWriter::with_capacity(BUFFER, file));
        Ok(Draft { files: Arc::clone(self), id: id.to_owned(), writer, written: 0 })
    }

    /// Deletes a file, if it exists.
    pub(super) fn remove(&self, id: &str) -> io::Result<()> {
        match fs::remove_file(self.path(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// An empty reservation.
    pub(super) fn reservation(self: &Arc<Self>) -> Reservation {
        Reservation { files: Arc::clone(self), bytes: 0 }
    }

    /// Counts bytes that had no reservation.
    pub(super) fn add(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes as free.
    pub(super) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// Deletes the unwanted files of a folder; returns their number. Files with other names stay: they
/// may have been in the folder before.
fn remove_unwanted(folder: &Path, unwanted: impl Fn(&str) -> bool) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let ours = name.to_str().filter(|name| is_ours(name));
        if entry.file_type()?.is_file() && ours.is_some_and(&unwanted) {
            fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Whether a name is a file id.
fn is_ours(name: &str) -> bool {
    let id = name.strip_prefix(FILE_PREFIX).unwrap_or_default();
    id.len() >= ID_MIN && id.bytes().all(|letter| letter.is_ascii_hexdigit())
}

// === impl Draft ===

impl Draft {
    /// Flushes the file to the disk and moves it to its path; returns its size.
    pub(super) fn keep(mut self) -> io::Result<u64> {
        let writer = self.writer.take().ok_or(io::ErrorKind::NotFound)?;
        let placed = writer.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| {
            file.sync_all()?;
            fs::rename(self.files.drafts.join(&self.id), self.files.path(&self.id))
        });
        if let Err(error) = placed {
            self.files.room.failed(&error, self.written);
            self.discard();
            return Err(error);
        }
        self.files.room.wrote(self.written);
        // Makes the new name durable as well.
        File::open(&self.files.files)?.sync_all()?;
        Ok(self.written)
    }

    fn discard(&self) {
        if let Err(error) = fs::remove_file(self.files.drafts.join(&self.id)) {
            tracing::warn!(%error, id = self.id, "a draft stays until the next start");
        }
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.as_mut().ok_or(io::ErrorKind::NotFound)?.write(bytes);
        match &written {
            Ok(count) => self.written += *count as u64,
            Err(error) => {
                let needed = self.written.saturating_add(bytes.len() as u64);
                self.files.room.failed(error, needed);
            }
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            // Drops the buffer without writing it.
            drop(writer.into_parts());
            self.discard();
        }
    }
}

// === impl Reservation ===

impl Reservation {
    /// Reserves more bytes; `false` if there is no room.
    pub(super) fn grow(&mut self, bytes: u64) -> bool {
        let limit = self.files.limit;
        let sum = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= limit);
        let used = &self.files.used;
        let fits = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok();
        self.bytes += if fits { bytes } else { 0 };
        fits
    }

    /// Keeps the bytes: the file is stored.
    pub(super) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.files.release(self.bytes);
    }
}
