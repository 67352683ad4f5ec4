//! `tidegate batch fetch`: downloads the responses of a batch that has ended.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::api::Api;
use super::batch_info::BatchInfo;
use super::wait_output::say;
use super::{OutputFiles, Server, failure_summary, upload_form};

/// The path that means standard output.
const STDOUT: &str = "-";

/// Fetch the responses of a batch that has ended.
///
/// Each line of the output is {"custom_id": …, "response": {"status_code": 200, "body": …}}, in the
/// order of the requests. The errors file has the failed requests in the same format.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate batch fetch batch_3f5a
      Write batch_3f5a.output.jsonl and batch_3f5a.errors.jsonl.
  tidegate batch fetch batch_3f5a --output - | jq -r .response.body.choices[0].message.content")]
pub(super) struct Fetch {
    /// The id of the batch.
    id: String,
    #[command(flatten)]
    files: OutputFiles,
    #[command(flatten)]
    server: Server,
}

/// A file that is not complete yet. It is deleted on drop, unless it was kept.
struct PartialFile {
    file: File,
    path: PathBuf,
}

// === impl Fetch ===

impl Fetch {
    pub(super) async fn run(self, out: &mut dyn Write) -> Result<ExitCode> {
        let api = self.server.api()?;
        let batch = api.batch(&self.id).await?;
        if !batch.has_ended() {
            let wait = api.command(&format!("status {} --watch", batch.id));
            bail!("the batch is {} and has no responses yet: wait with {wait}", batch.status);
        }
        // Not the id of the response: a server could choose a path with it.
        let files = self.files.or_beside(Path::new(&self.id));
        files.check(None)?;
        let mut notes = fetch(&api, &batch, &files, out).await?;
        if self.server.json {
            batch.show(out, true)?;
        }
        if notes.is_empty() {
            notes.push(format!("{}: nothing to fetch", batch.status));
            notes.extend(batch.errors());
        }
        notes.iter().for_each(|note| say(note));
        Ok(batch.exit_code())
    }
}

// === impl Files ===

impl OutputFiles {
    /// Fills in missing paths with names derived from `name`.
    pub(super) fn or_beside(&self, name: &Path) -> Self {
        let beside = |kind: &str| {
            let mut path = OsString::from(name);
            path.push(format!(".{kind}.jsonl"));
            Some(path.into())
        };
        Self {
            output: self.output.clone().or_else(|| beside("output")),
            errors: self.errors.clone().or_else(|| beside("errors")),
            force: self.force,
        }
    }

    /// Checks that the files can be written, before the batch is submitted.
    pub(super) fn check(&self, input: Option<&Path>) -> Result<()> {
        let paths = [&self.output, &self.errors].map(Option::as_deref);
        for path in paths.into_iter().flatten().filter(|path| !is_stdout(path)) {
            check_path(path, input, self.force).with_context(|| path.display().to_string())?;
        }
        match paths.map(|path| path.filter(|path| !is_stdout(path))) {
            [Some(one), Some(other)] if is_same_path(one, other) => {
                bail!("--output and --errors are both {}", one.display())
            }
            _ => Ok(()),
        }
    }
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == STDOUT
}

fn check_path(path: &Path, input: Option<&Path>, force: bool) -> Result<()> {
    let input = input.and_then(|input| input.metadata().ok());
    let exists =
        "the file exists: overwrite it with --force, or choose another with --output and --errors";
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
        bail!("this is a folder: give a file in it");
    }
    match path.metadata() {
        Ok(found) if found.is_dir() => bail!("this is a folder: give a file in it"),
        Ok(found) if input.is_some_and(|input| is_same(&input, &found)) => {
            bail!("this is the input file: choose another file for the responses")
        }
        // Devices and pipes are written to as they are.
        Ok(found) if !found.is_file() => return Ok(()),
        Ok(_) if !force => bail!(exists),
        // A dangling link exists as well.
        Err(_) if !force && path.is_symlink() => bail!(exists),
        _ => {}
    }
    let folder = folder(path);
    if !folder.is_dir() {
        bail!("the folder {} does not exist", folder.display());
    }
    PartialFile::beside(path).map(drop).context("the file cannot be written")
}

/// The folder of a file.
fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Whether two paths are the same file.
fn is_same_path(one: &Path, other: &Path) -> bool {
    // Devices are excluded: standard output and standard error may be one terminal.
    let file = |path: &Path| path.metadata().ok().filter(fs::Metadata::is_file);
    if let (Some(one), Some(other)) = (file(one), file(other)) {
        return is_same(&one, &other);
    }
    let location =
        |path: &Path| Some((folder(path).canonicalize().ok()?, path.file_name()?.to_owned()));
    location(one).is_some_and(|at| location(other) == Some(at))
}

fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

// === impl Draft ===

impl PartialFile {
    /// Creates a file with a random name beside `path`, so that no existing file is overwritten.
    fn beside(path: &Path) -> io::Result<Self> {
        let path = folder(path).join(format!(".tidegate-{:016x}.part", upload_form::random()));
        let file = File::options().write(true).create_new(true).open(&path)?;
        Ok(Self { file, path })
    }

    /// Moves the complete file to `path`.
    fn keep(&self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, path)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // After `keep` the file has another name.
        let _ = fs::remove_file(&self.path);
    }
}

/// Downloads the files of a batch. Returns notes for the user.
pub(super) async fn fetch(
    api: &Api,
    batch: &BatchInfo,
    files: &OutputFiles,
    out: &mut dyn Write,
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let files_of_batch = [
        ("responses", &batch.output_file_id, &files.output),
        ("failures", &batch.error_file_id, &files.errors),
    ];
    for (what, file, path) in files_of_batch {
        let Some(path) = path else { continue };
        let name = path.display();
        let Some(file) = file else {
            if path.is_file() {
                notes.push(format!("{name} is an older file: this batch has no {what}"));
            }
            continue;
        };
        let mut body = api.content(file).await?.into_body();
        if is_stdout(path) {
            copy(&mut body, out).await?;
            continue;
        }
        save(&mut body, path).await.with_context(|| {
            let retry = api.command(&format!("fetch {}", batch.id));
            format!("{name} was not written; the gateway keeps the {what}: retry with {retry}")
        })?;
        notes.push(format!("{what}: {name}"));
    }
    notes.extend(most_frequent_failure(batch, files));
    Ok(notes)
}

fn most_frequent_failure(batch: &BatchInfo, files: &OutputFiles) -> Option<String> {
    batch.error_file_id.as_ref()?;
    let path = files.errors.as_ref().filter(|path| path.is_file())?;
    failure_summary::most_frequent(File::open(path).ok()?)
}

/// Writes a file completely or not at all. Devices and pipes are written directly.
async fn save(body: &mut Incoming, path: &Path) -> Result<()> {
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return copy(body, &mut File::options().write(true).open(path)?).await;
    }
    let draft = PartialFile::beside(path)?;
    copy(body, &mut BufWriter::new(&draft.file)).await?;
    Ok(draft.keep(path)?)
}

async fn copy(body: &mut Incoming, to: &mut dyn Write) -> Result<()> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.context("the download was interrupted")?.into_data() {
            to.write_all(&data)?;
        }
    }
    Ok(to.flush()?)
}
