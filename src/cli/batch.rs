//! `tidegate batch`: submits a file of requests and fetches the responses.
//!
//! The commands use the same Batch API as every other client. A batch continues in the gateway when
//! a command is interrupted.

mod api;
mod batch_info;
mod failure_summary;
mod fetch;
mod poll_until_end;
mod submit;
mod upload_form;
mod wait_output;
mod wait_stall;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::api::Api;
use self::batch_info::BatchInfo;
use crate::cli::remote::KeySource;

/// The default address of a gateway.
const URL: &str = "http://127.0.0.1:8430";
/// The exit code of a batch that ended with failed requests. It is not 2, which means an invalid
/// command line.
const PARTLY_FAILED: u8 = 3;

/// Submit a file of requests, which are sent when the servers have room, and fetch the responses.
///
/// A file has one request per line, in the format of OpenAI's Batch API:
///
///   {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions",
///    "body": {"model": "llama3", "messages": [{"role": "user", "content": "Hello"}]}}
///
/// The gateway needs a folder for batches (batch.folder, docs/BATCH.md). It stores all data there.
/// A batch therefore continues when this command is interrupted, and after a restart of the
/// gateway.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  tidegate batch submit questions.jsonl --wait         submit, wait, and fetch the responses
  tidegate batch submit questions.jsonl --window 2h    submit; requests without a response after
                                                       2 hours expire
  tidegate batch status batch_3f5a --watch             show the status until the batch has ended
  tidegate batch fetch batch_3f5a --output answers.jsonl
  tidegate batch list
  tidegate batch cancel batch_3f5a                     the responses so far can be fetched

Exit codes:
  0    success; every request of an ended batch has a good response
  1    the command failed; the message gives the reason
  2    invalid command line
  3    the batch has ended, but some requests failed: see the errors file
  130  interrupted while waiting; the batch continues"
)]
pub(super) struct Batch {
    #[command(subcommand)]
    command: BatchCommand,
}

#[derive(Debug, Subcommand)]
enum BatchCommand {
    Submit(submit::Submit),
    Status(Status),
    Cancel(Cancel),
    Fetch(fetch::Fetch),
    List(List),
}

/// The gateway to call.
#[derive(Args, Debug)]
struct Server {
    /// The address of the gateway, with or without /v1.
    #[arg(long, default_value = URL)]
    url: String,
    #[command(flatten)]
    key: KeySource,
    /// A header for every call, such as "Authorization: Bearer …"; may be repeated. The requests of
    /// a batch keep the headers that name their flow, such as "x-team: lab".
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Print the gateway's JSON, for programs.
    #[arg(long)]
    json: bool,
}

/// The files that receive the responses.
#[derive(Args, Debug)]
struct OutputFiles {
    /// The file for good responses; `-` is standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The file for failed requests; `-` is standard output.
    #[arg(long, short, value_name = "FILE")]
    errors: Option<PathBuf>,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
}

/// Show the status of a batch.
#[derive(Args, Debug)]
struct Status {
    /// The id of the batch; the newest batch by default.
    id: Option<String>,
    /// Wait until the batch has ended, and show the progress.
    #[arg(long, short)]
    watch: bool,
    #[command(flatten)]
    server: Server,
}

/// Cancel the requests that have no response yet. The responses so far can be fetched.
#[derive(Args, Debug)]
struct Cancel {
    /// The id of the batch.
    id: String,
    #[command(flatten)]
    server: Server,
}

/// List batches, newest first.
#[derive(Args, Debug)]
struct List {
    /// The number of batches to list, at most 100.
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
            match self.command {
                BatchCommand::Submit(submit) => submit.run(out).await,
                BatchCommand::Status(status) => status.run(out).await,
                BatchCommand::Cancel(cancel) => cancel.run(out).await,
                BatchCommand::Fetch(fetch) => fetch.run(out).await,
                BatchCommand::List(list) => list.run(out).await,
            }
        })
    }
}

// === impl Server ===

impl Server {
    fn api(&self) -> Result<Api> {
        Api::new(&self.url, self.key.headers()?, &self.headers)
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
            match poll_until_end::until_end(&api, batch).await? {
                Some(ended) => batch = ended,
                None => return Ok(poll_until_end::INTERRUPTED.into()),
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
            batch_info::table(&api.batches(self.limit).await?, out)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints the command that fetches the responses, and the reasons why requests wait.
async fn advise(api: &Api, batch: &BatchInfo, out: &mut dyn Write) -> Result<()> {
    if batch.output_file_id.is_some() || batch.error_file_id.is_some() {
        writeln!(out, "fetch    {}", api.typed(&format!("fetch {}", batch.id)))?;
    }
    if batch.is_in_progress() {
        for why in wait_stall::reasons(api).await {
            writeln!(out, "now      {why}")?;
        }
    }
    Ok(())
}

// === impl BatchInfo ===

impl BatchInfo {
    /// The exit code of a command that shows this batch.
    fn exit_code(&self) -> ExitCode {
        match self.status.as_str() {
            "failed" => ExitCode::FAILURE,
            _ if self.has_ended() && !self.is_all_good() => PARTLY_FAILED.into(),
            _ => ExitCode::SUCCESS,
        }
    }
}
