//! `tidegate batch fetch`: the answers of a batch that has ended.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::api::Api;
use super::info::Info;
use super::{Files, Server, failures};

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

// === impl Fetch ===

impl Fetch {
    pub(super) async fn run(self, out: &mut dyn Write) -> Result<ExitCode> {
        let api = self.server.api()?;
        let batch = api.batch(&self.id).await?;
        if !batch.has_ended() {
            let wait = api.command(&format!("status {} --watch", batch.id));
            bail!("it is {} and has no answers yet: {wait} waits for it", batch.status);
        }
        let files = self.files.or_beside(Path::new(&batch.id));
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
        match paths {
            [Some(one), Some(other)] if one == other && !is_terminal(one) => {
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
    match path.metadata() {
        Ok(found) if found.is_dir() => bail!("this is a folder: name a file in it"),
        Ok(found) if input.is_some_and(|input| is_same(&input, &found)) => {
            bail!("these are the requests themselves: name another file for their answers")
        }
        // Devices and pipes are written to as they are.
        Ok(found) if !found.is_file() => return Ok(()),
        Ok(_) if !force => {
            bail!("this is there already: --force replaces it, --output and --errors name others")
        }
        _ => {}
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        bail!("there is no folder {}", folder.display());
    }
    let draft = draft(path);
    File::create(&draft).context("this cannot be written")?;
    Ok(fs::remove_file(draft)?)
}

fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// What a file is called until all of it is there.
fn draft(path: &Path) -> PathBuf {
    let mut draft = OsString::from(path);
    draft.push(".part");
    draft.into()
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
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// Writes a file that is there whole or not at all; a device or a pipe as it comes.
async fn save(body: &mut Incoming, path: &Path) -> Result<()> {
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return copy(body, &mut File::options().write(true).open(path)?).await;
    }
    let draft = draft(path);
    let mut writer = BufWriter::new(File::create(&draft)?);
    let copied = copy(body, &mut writer).await;
    let kept = copied.and_then(|()| {
        writer.into_inner()?.sync_all()?;
        Ok(fs::rename(&draft, path)?)
    });
    if kept.is_err() {
        // It may not even be there.
        let _ = fs::remove_file(&draft);
    }
    kept
}

async fn copy(body: &mut Incoming, to: &mut dyn Write) -> Result<()> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.context("the download broke off")?.into_data() {
            to.write_all(&data)?;
        }
    }
    Ok(to.flush()?)
}
