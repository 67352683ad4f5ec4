//! `tidegate batch`: many requests in one file, sent when there is room, their answers in another.
//!
//! It speaks the same Batch API as every other client. Whatever it waits for goes on in the gateway
//! when it is interrupted.

mod api;
mod failures;
mod fetch;
mod follow;
mod form;
mod info;
mod meter;
mod submit;
mod why;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::api::Api;
use self::info::Info;

/// Where a gateway is that was not told otherwise.
const URL: &str = "http://127.0.0.1:8080";
/// The exit code of a batch some of whose requests have no good answer. Not 2, which says that the
/// command was not understood.
const PARTLY: u8 = 3;

/// Send a file of requests when there is room, and collect the answers when they are done.
///
/// A file has one request a line, as OpenAI's Batch API takes it:
///
///   {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions",
///    "body": {"model": "llama3", "messages": [{"role": "user", "content": "Hello"}]}}
///
/// The gateway needs a folder for it (batch.folder, docs/BATCH.md). It keeps everything there, so a
/// batch goes on when this command is interrupted, and when the gateway is started again.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  tidegate batch submit questions.jsonl --wait         send it, wait, and fetch the answers
  tidegate batch submit questions.jsonl --window 2h    send it; what is not answered in 2 hours is
                                                       given up
  tidegate batch status batch_3f5a --watch             how it stands, until it has ended
  tidegate batch fetch batch_3f5a --output answers.jsonl
  tidegate batch list
  tidegate batch cancel batch_3f5a                     what is answered already can be fetched

Exit codes:
  0  done, and every request of a batch that has ended was answered well
  1  it did not work; the message says why
  2  the command is not understood
  3  the batch has ended, but some requests failed: they are in the file of errors
  130  the waiting was interrupted; the batch goes on"
)]
pub(super) struct Batch {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Submit(submit::Submit),
    Status(Status),
    Cancel(Cancel),
    Fetch(fetch::Fetch),
    List(List),
}

/// Where the gateway is.
#[derive(Args, Debug)]
struct Server {
    /// Where the gateway is, with or without /v1.
    #[arg(long, default_value = URL)]
    url: String,
    /// A header for every request, such as "Authorization: Bearer …"; may be repeated.
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Print what the gateway says as JSON, for programs.
    #[arg(long)]
    json: bool,
}

/// Where answers go.
#[derive(Args, Debug)]
struct Files {
    /// Where good answers go; `-` is the terminal.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Where everything else goes; `-` is the terminal.
    #[arg(long, short, value_name = "FILE")]
    errors: Option<PathBuf>,
    /// Replace files that are there already.
    #[arg(long)]
    force: bool,
}

/// Say how a batch stands.
#[derive(Args, Debug)]
struct Status {
    /// The batch; the newest one unless given.
    id: Option<String>,
    /// Go on until it has ended.
    #[arg(long, short)]
    watch: bool,
    #[command(flatten)]
    server: Server,
}

/// Give up what is not answered yet. What is answered can be fetched.
#[derive(Args, Debug)]
struct Cancel {
    /// The batch.
    id: String,
    #[command(flatten)]
    server: Server,
}

/// List batches, the newest first.
#[derive(Args, Debug)]
struct List {
    /// How many at most, up to 100.
    #[arg(long, default_value_t = 20)]
    limit: u32,
    #[command(flatten)]
    server: Server,
}

// === impl Batch ===

impl Batch {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            match self.verb {
                Verb::Submit(submit) => submit.run(out).await,
                Verb::Status(status) => status.run(out).await,
                Verb::Cancel(cancel) => cancel.run(out).await,
                Verb::Fetch(fetch) => fetch.run(out).await,
                Verb::List(list) => list.run(out).await,
            }
        })
    }
}

// === impl Server ===

impl Server {
    fn api(&self) -> Result<Api> {
        Api::new(&self.url, &self.headers)
    }
}

// === impl Status ===

impl Status {
    async fn run(self, out: &mut dyn Write) -> Result<ExitCode> {
        let api = self.server.api()?;
        let mut batch = match self.id {
            Some(id) => api.batch(&id).await?,
            None => api.newest().await?,
        };
        if self.watch && !batch.has_ended() {
            match follow::until_end(&api, batch).await? {
                Some(ended) => batch = ended,
                None => return Ok(follow::INTERRUPTED.into()),
            }
        }
        batch.show(out, self.server.json)?;
        if !self.server.json {
            advise(&api, &batch, out).await?;
        }
        Ok(batch.exit_code())
    }
}

// === impl Cancel ===

impl Cancel {
    async fn run(self, out: &mut dyn Write) -> Result<ExitCode> {
        let batch = self.server.api()?.cancel(&self.id).await?;
        batch.show(out, self.server.json)?;
        Ok(ExitCode::SUCCESS)
    }
}

// === impl List ===

impl List {
    async fn run(self, out: &mut dyn Write) -> Result<ExitCode> {
        let api = self.server.api()?;
        if self.server.json {
            writeln!(out, "{:#}", api.page(self.limit).await?)?;
        } else {
            info::table(&api.batches(self.limit).await?, out)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What can be done about a batch, or what it waits for.
async fn advise(api: &Api, batch: &Info, out: &mut dyn Write) -> Result<()> {
    if batch.output_file_id.is_some() || batch.error_file_id.is_some() {
        writeln!(out, "fetch    {}", api.typed(&format!("fetch {}", batch.id)))?;
    }
    if batch.is_in_progress() {
        for why in why::why(api).await {
            writeln!(out, "now      {why}")?;
        }
    }
    Ok(())
}

// === impl Info ===

impl Info {
    /// How a batch that has ended shows.
    fn exit_code(&self) -> ExitCode {
        match self.status.as_str() {
            "failed" => ExitCode::FAILURE,
            _ if self.has_ended() && !self.is_all_good() => PARTLY.into(),
            _ => ExitCode::SUCCESS,
        }
    }
}
