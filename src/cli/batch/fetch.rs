//! `tidegate batch fetch`: the answers of a batch that has ended.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::api::Api;
use super::info::Info;
use super::{Files, Server};

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
        let written = fetch(&api, &batch, &files, out).await?;
        if self.server.json {
            batch.show(out, true)?;
        }
        tell(&written);
        Ok(batch.exit_code())
    }
}

// === impl Files ===

impl Files {
    /// The same with names beside this one where none are given.
    pub(super) fn or_beside(self, name: &Path) -> Self {
        let beside = |kind: &str| {
            let mut path = OsString::from(name);
            path.push(format!(".{kind}.jsonl"));
            Some(path.into())
        };
        Self {
            output: self.output.or_else(|| beside("output")),
            errors: self.errors.or_else(|| beside("errors")),
        }
    }
}

/// Fetches what there is; says what was written where.
pub(super) async fn fetch(
    api: &Api,
    batch: &Info,
    files: &Files,
    out: &mut dyn Write,
) -> Result<Vec<String>> {
    let mut written = Vec::new();
    let wanted = [(&batch.output_file_id, &files.output), (&batch.error_file_id, &files.errors)];
    for (file, path) in wanted {
        let (Some(file), Some(path)) = (file, path) else { continue };
        let mut body = api.content(file).await?.into_body();
        if path.as_os_str() == TERMINAL {
            copy(&mut body, out).await?;
            continue;
        }
        save(&mut body, path).await.with_context(|| path.display().to_string())?;
        written.push(path.display().to_string());
    }
    Ok(written)
}

/// Says where answers are, where people look and programs do not.
pub(super) fn tell(written: &[String]) {
    for path in written {
        // There is nobody to tell if this fails.
        let _ = writeln!(std::io::stderr(), "wrote {path}");
    }
}

/// Writes a file that is there whole or not at all.
async fn save(body: &mut Incoming, path: &Path) -> Result<()> {
    let mut draft = OsString::from(path);
    draft.push(".part");
    let draft = PathBuf::from(draft);
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
