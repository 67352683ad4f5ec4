//! `tidegate batch fetch`: the answers of a batch that has ended.

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
use super::info::Info;
use super::{Files, Server, failures, form};

/// What stands for the terminal.
const TERMINAL: &str = "-";

/// Fetch the answers of a batch that has ended.
///
/// Each line of the output is {"custom_id": …, "response": {"status_code": 200, "body": …}}, in the
/// order of the requests. Whatever was not answered well is in the file of errors, in the same
/// form.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate batch fetch batch_3f5a                      into batch_3f5a.output.jsonl and
                                                       batch_3f5a.errors.jsonl
  tidegate batch fetch batch_3f5a --output - | jq -r .response.body.choices[0].message.content")]
pub(super) struct Fetch {
    /// The batch.
    id: String,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    server: Server,
}

/// A file that is not all there yet. It goes when this does, unless it is kept.
struct Draft {
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
            bail!("it is {} and has no answers yet: {wait} waits for it", batch.status);
        }
        // Not the id that the server answers with: it might name a place of its own choice.
        let files = self.files.or_beside(Path::new(&self.id));
        files.check(None)?;
        let mut told = fetch(&api, &batch, &files, out).await?;
        if self.server.json {
            batch.show(out, true)?;
        }
        if told.is_empty() {
            told.push(format!("{}: there is nothing to fetch", batch.status));
            told.extend(batch.flaws());
        }
        tell(&told);
        Ok(batch.exit_code())
    }
}

// === impl Files ===

impl Files {
    /// The same with names beside this one where none are given.
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

    /// Finds out whether answers can be written there, before anybody works for them.
    pub(super) fn check(&self, input: Option<&Path>) -> Result<()> {
        let paths = [&self.output, &self.errors].map(Option::as_deref);
        for path in paths.into_iter().flatten().filter(|path| !is_terminal(path)) {
            check_place(path, input, self.force).with_context(|| path.display().to_string())?;
        }
        match paths.map(|path| path.filter(|path| !is_terminal(path))) {
            [Some(one), Some(other)] if is_one_place(one, other) => {
                bail!("--output and --errors are both {}", one.display())
            }
            _ => Ok(()),
        }
    }
}

fn is_terminal(path: &Path) -> bool {
    path.as_os_str() == TERMINAL
}

fn check_place(path: &Path, input: Option<&Path>, force: bool) -> Result<()> {
    let input = input.and_then(|input| input.metadata().ok());
    let there = "this is there already: --force replaces it, --output and --errors name others";
    let spelt = path.as_os_str().as_encoded_bytes();
    if spelt.ends_with(b"/") || spelt.ends_with(b"/.") {
        bail!("this is a folder: name a file in it");
    }
    match path.metadata() {
        Ok(found) if found.is_dir() => bail!("this is a folder: name a file in it"),
        Ok(found) if input.is_some_and(|input| is_same(&input, &found)) => {
            bail!("these are the requests themselves: name another file for their answers")
        }
        // Devices and pipes are written to as they are.
        Ok(found) if !found.is_file() => return Ok(()),
        Ok(_) if !force => bail!(there),
        // A link to nothing is something all the same.
        Err(_) if !force && path.is_symlink() => bail!(there),
        _ => {}
    }
    let folder = folder(path);
    if !folder.is_dir() {
        bail!("there is no folder {}", folder.display());
    }
    Draft::beside(path).map(drop).context("this cannot be written")
}

/// Where a file is.
fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Whether two names mean one file, however they are spelt.
fn is_one_place(one: &Path, other: &Path) -> bool {
    // Devices are left out: one terminal may well be standard output and standard error.
    let file = |path: &Path| path.metadata().ok().filter(fs::Metadata::is_file);
    if let (Some(one), Some(other)) = (file(one), file(other)) {
        return is_same(&one, &other);
    }
    let place =
        |path: &Path| Some((folder(path).canonicalize().ok()?, path.file_name()?.to_owned()));
    place(one).is_some_and(|at| place(other) == Some(at))
}

fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

// === impl Draft ===

impl Draft {
    /// Begins one under a name that nobody has: whatever is there is not ours to write to.
    fn beside(path: &Path) -> io::Result<Self> {
        let path = folder(path).join(format!(".tidegate-{:016x}.part", form::random()));
        let file = File::options().write(true).create_new(true).open(&path)?;
        Ok(Self { file, path })
    }

    /// Gives it the name that it was written for.
    fn keep(&self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, path)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It is gone already where it was kept.
        let _ = fs::remove_file(&self.path);
    }
}

/// Fetches what there is; gives what there is to say about it.
pub(super) async fn fetch(
    api: &Api,
    batch: &Info,
    files: &Files,
    out: &mut dyn Write,
) -> Result<Vec<String>> {
    let mut told = Vec::new();
    let wanted = [
        ("answers", &batch.output_file_id, &files.output),
        ("failures", &batch.error_file_id, &files.errors),
    ];
    for (what, file, path) in wanted {
        let Some(path) = path else { continue };
        let name = path.display();
        let Some(file) = file else {
            if path.is_file() {
                told.push(format!("{name} is an older file: there are no {what} now"));
            }
            continue;
        };
        let mut body = api.content(file).await?.into_body();
        if is_terminal(path) {
            copy(&mut body, out).await?;
            continue;
        }
        save(&mut body, path).await.with_context(|| {
            let again = api.command(&format!("fetch {}", batch.id));
            format!("{name} was not written; the gateway keeps the {what}, {again} tries again")
        })?;
        told.push(format!("{what} in {name}"));
    }
    told.extend(commonest_failure(batch, files));
    Ok(told)
}

fn commonest_failure(batch: &Info, files: &Files) -> Option<String> {
    batch.error_file_id.as_ref()?;
    let path = files.errors.as_ref().filter(|path| path.is_file())?;
    failures::commonest(File::open(path).ok()?)
}

/// Says where answers are, where people look and programs do not.
pub(super) fn tell(lines: &[String]) {
    for line in lines {
        // There is nobody to tell if this fails.
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// Writes a file that is there whole or not at all; a device or a pipe as it comes.
async fn save(body: &mut Incoming, path: &Path) -> Result<()> {
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return copy(body, &mut File::options().write(true).open(path)?).await;
    }
    let draft = Draft::beside(path)?;
    copy(body, &mut BufWriter::new(&draft.file)).await?;
    Ok(draft.keep(path)?)
}

async fn copy(body: &mut Incoming, to: &mut dyn Write) -> Result<()> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.context("the download broke off")?.into_data() {
            to.write_all(&data)?;
        }
    }
    Ok(to.flush()?)
}
