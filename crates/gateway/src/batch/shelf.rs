//! The files themselves: a folder of bytes, each under the id of its row.
//!
//! A file is written under another roof, flushed, moved to its place, and only then has a row. So
//! whatever lies in its place without a row is left over from a crash, and goes when the shelf is
//! opened. Nothing that a client says ever becomes part of a path.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is gathered before it is written.
const BUFFER: usize = 256 << 10;

/// The folder.
#[derive(Debug)]
pub(super) struct Shelf {
    files: PathBuf,
    drafts: PathBuf,
    /// The most bytes that may lie here, and how many do or are on their way.
    limit: u64,
    taken: AtomicU64,
}

/// A file that is being written. Dropped before it is kept, it leaves nothing.
#[derive(Debug)]
pub(super) struct Draft {
    shelf: Arc<Shelf>,
    id: String,
    writer: Option<BufWriter<File>>,
    written: u64,
}

/// How the names of files begin, and how much follows at least.
pub(super) const FILE_PREFIX: &str = "file-";
const ID_MIN: usize = 16;

/// The part of the shelf that one file takes while it comes; given back unless it is kept.
#[derive(Debug)]
pub(super) struct Share {
    shelf: Arc<Shelf>,
    bytes: u64,
}

// === impl Shelf ===

impl Shelf {
    /// Opens a folder, and makes it if need be.
    pub(super) fn open(folder: &Path, limit: u64) -> io::Result<Arc<Self>> {
        let mut builder = fs::DirBuilder::new();
        // Prompts and answers are nobody else's business.
        builder.recursive(true).mode(0o700);
        let (files, drafts) = (folder.join("files"), folder.join("drafts"));
        builder.create(&files)?;
        builder.create(&drafts)?;
        // Messages name files by their whole path, wherever the next process is started.
        let (files, drafts) = (files.canonicalize()?, drafts.canonicalize()?);
        Ok(Arc::new(Self { files, drafts, limit, taken: AtomicU64::new(0) }))
    }

    /// Clears away what a crash has left: drafts, and files that nobody knows. Those that are known
    /// have so many bytes.
    pub(super) fn tidy(&self, known: &BTreeSet<String>, taken: u64) -> io::Result<usize> {
        self.taken.store(taken, Ordering::Relaxed);
        let drafts = empty(&self.drafts, |_| true)?;
        Ok(drafts + empty(&self.files, |name| !known.contains(name))?)
    }

    /// Where the bytes of a file are.
    pub(super) fn path(&self, id: &str) -> PathBuf {
        self.files.join(id)
    }

    /// Begins a file.
    pub(super) fn draft(self: &Arc<Self>, id: &str) -> io::Result<Draft> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(self.drafts.join(id))?;
        let writer = Some(BufWriter::with_capacity(BUFFER, file));
        Ok(Draft { shelf: Arc::clone(self), id: id.to_owned(), writer, written: 0 })
    }

    /// Takes a file away. That it is gone already is as good.
    pub(super) fn remove(&self, id: &str) -> io::Result<()> {
        match fs::remove_file(self.path(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// A part of the shelf that is empty yet.
    pub(super) fn share(self: &Arc<Self>) -> Share {
        Share { shelf: Arc::clone(self), bytes: 0 }
    }

    /// So many bytes lie here that nobody asked for a share of.
    pub(super) fn add(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes lie here no more.
    pub(super) fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

/// Removes those files of a folder that are not wanted; says how many. What others have put there
/// stays: the folder may have been theirs before.
fn empty(folder: &Path, unwanted: impl Fn(&str) -> bool) -> io::Result<usize> {
    let mut gone = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let ours = name.to_str().filter(|name| is_ours(name));
        if entry.file_type()?.is_file() && ours.is_some_and(&unwanted) {
            fs::remove_file(entry.path())?;
            gone += 1;
        }
    }
    Ok(gone)
}

/// Whether a name is one that files get here.
fn is_ours(name: &str) -> bool {
    let id = name.strip_prefix(FILE_PREFIX).unwrap_or_default();
    id.len() >= ID_MIN && id.bytes().all(|letter| letter.is_ascii_hexdigit())
}

// === impl Draft ===

impl Draft {
    /// Flushes the file to the disk and puts it into its place; says how many bytes it has.
    pub(super) fn keep(mut self) -> io::Result<u64> {
        let writer = self.writer.take().ok_or(io::ErrorKind::NotFound)?;
        let placed = writer.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| {
            file.sync_all()?;
            fs::rename(self.shelf.drafts.join(&self.id), self.shelf.path(&self.id))
        });
        if let Err(error) = placed {
            self.discard();
            return Err(error);
        }
        // The name is as lasting as the bytes.
        File::open(&self.shelf.files)?.sync_all()?;
        Ok(self.written)
    }

    fn discard(&self) {
        if let Err(error) = fs::remove_file(self.shelf.drafts.join(&self.id)) {
            tracing::warn!(%error, id = self.id, "a draft stays until the next start");
        }
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.writer.as_mut().ok_or(io::ErrorKind::NotFound)?.write(bytes)?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            // What it still gathers would only be written to be thrown away.
            drop(writer.into_parts());
            self.discard();
        }
    }
}

// === impl Share ===

impl Share {
    /// Takes so many bytes more; `false` when there is no room.
    pub(super) fn more(&mut self, bytes: u64) -> bool {
        let limit = self.shelf.limit;
        let sum = |taken: u64| taken.checked_add(bytes).filter(|&sum| sum <= limit);
        let taken = &self.shelf.taken;
        let fits = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok();
        self.bytes += if fits { bytes } else { 0 };
        fits
    }

    /// The file is here to stay.
    pub(super) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shelf.give_back(self.bytes);
    }
}
