//! Questions to a dispatcher that runs.

use std::io::Write;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use gateway::client::{self, Base};

/// Say why messages go, or why they do not.
///
/// Shows each queue with what waits in it, and each gate with what it last read, how old that is,
/// how much it allows and what is left of it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate dispatch explain
  tidegate dispatch explain --url http://127.0.0.1:8080     of a gateway with a Batch API
  tidegate dispatch explain --json | jq '.gates[] | {name, left}'")]
pub(super) struct Explain {
    #[command(flatten)]
    at: At,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Dead {
    /// List them, oldest first.
    List(List),
    /// Let them wait again, as if they had just been submitted.
    Redrive(Some),
    /// Forget them.
    Purge(Some),
}

#[derive(Args, Debug)]
pub(super) struct List {
    #[command(flatten)]
    at: At,
    /// Whose dead.
    #[arg(long)]
    queue: String,
    /// Those after the one with this number.
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
}

#[derive(Args, Debug)]
pub(super) struct Some {
    #[command(flatten)]
    at: At,
    /// Whose dead.
    #[arg(long)]
    queue: String,
    /// Those with this id; may be repeated.
    #[arg(long = "id", value_name = "ID", required_unless_present = "all")]
    ids: Vec<String>,
    /// All of them.
    #[arg(long, conflicts_with = "ids")]
    all: bool,
}

#[derive(Args, Debug)]
struct At {
    /// Where the dispatcher's pages are; those of a gateway are beside its API.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8081")]
    url: String,
}

// === impl Explain ===

impl Explain {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        let page = if self.json { "/dispatch" } else { "/dispatch.txt" };
        self.at.ask("GET", page, Vec::new(), out)
    }
}

// === impl Dead ===

impl Dead {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        match self {
            Self::List(List { at, queue, after }) => {
                let after = after.map_or(String::new(), |after| format!("&after={after}"));
                let page = format!("/dispatch/dead?queue={}{after}", client::escaped(&queue));
                at.ask("GET", &page, Vec::new(), out)
            }
            Self::Redrive(some) => some.run("/dispatch/dead/redrive", out),
            Self::Purge(some) => some.run("/dispatch/dead/purge", out),
        }
    }
}

// === impl Some ===

impl Some {
    fn run(self, page: &str, out: &mut dyn Write) -> Result<()> {
        let Self { at, queue, ids, all } = self;
        let meant = match all {
            true => serde_json::json!({ "queue": queue }),
            false => serde_json::json!({ "queue": queue, "ids": ids }),
        };
        at.ask("POST", page, serde_json::to_vec(&meant)?, out)
    }
}

// === impl At ===

impl At {
    fn ask(&self, method: &str, page: &str, body: Vec<u8>, out: &mut dyn Write) -> Result<()> {
        let base = Base::read(&self.url).map_err(anyhow::Error::msg)?;
        let answer = client::ask(&base, (method, page), body)
            .with_context(|| format!("is a dispatcher at {}? --url says where it is", self.url))?;
        let text = String::from_utf8_lossy(&answer.body);
        if !answer.status.is_success() {
            let said: Option<serde_json::Value> = serde_json::from_str(&text).ok();
            let said = said.as_ref().and_then(|said| said["error"]["message"].as_str());
            bail!("{} answered {}: {}", self.url, answer.status, said.unwrap_or(text.trim_end()));
        }
        writeln!(out, "{}", text.trim_end())?;
        Ok(())
    }
}
