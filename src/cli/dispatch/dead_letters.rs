//! `tidegate dispatch dead`: lists, redrives and purges dead letters.
//!
//! The commands call the running dispatcher, because it owns the store.

use std::io::Write;

use anyhow::{Result, bail};
use clap::{ArgGroup, Args, Subcommand};
use gateway::client;
use serde::Deserialize;

use super::endpoint::Endpoint;

/// Examples in `--help`.
pub(super) const EXAMPLES: &str = "Examples:
  tidegate dispatch dead list --queue request-sortedset
  tidegate dispatch dead redrive --queue request-sortedset --id a --id b
  tidegate dispatch dead purge --queue request-sortedset --all";

#[derive(Debug, Subcommand)]
pub(super) enum DeadLetters {
    /// List dead letters, oldest first.
    List(List),
    /// Make dead letters pending again, with no failures counted.
    Redrive(Change),
    /// Delete dead letters.
    Purge(Change),
}

#[derive(Args, Debug)]
pub(super) struct List {
    #[command(flatten)]
    endpoint: Endpoint,
    /// The queue.
    #[arg(long)]
    queue: String,
    /// List only dead letters after the one with this number.
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("which").args(["ids", "all"]).required(true))]
pub(super) struct Change {
    #[command(flatten)]
    endpoint: Endpoint,
    /// The queue.
    #[arg(long)]
    queue: String,
    /// The id of a dead letter; may be repeated.
    #[arg(long = "id", value_name = "ID")]
    ids: Vec<String>,
    /// All dead letters of the queue.
    #[arg(long)]
    all: bool,
    /// Print JSON instead of a sentence.
    #[arg(long)]
    json: bool,
}

/// The response to `GET /dispatch/dead`.
#[derive(Debug, Deserialize)]
struct DeadLetterPage {
    dead: Vec<DeadLetter>,
    next: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct DeadLetter {
    number: u64,
    id: String,
    failures: u32,
    why: String,
}

/// The response to `POST /dispatch/dead/redrive` and `…/purge`.
#[derive(Debug, Deserialize)]
struct ChangeResult {
    messages: u64,
    /// The dead letters that could not be changed, with the reasons of the first ones.
    stay: u64,
    why: Vec<Unchanged>,
}

#[derive(Debug, Deserialize)]
struct Unchanged {
    id: String,
    why: String,
}

// === impl DeadLetters ===

impl DeadLetters {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        match self {
            Self::List(list) => list.run(out),
            Self::Redrive(change) => change.run("redrive", out),
            Self::Purge(change) => change.run("purge", out),
        }
    }
}

// === impl List ===

impl List {
    fn run(self, out: &mut dyn Write) -> Result<()> {
        let Self { endpoint, queue, after, json } = self;
        let after = after.map_or(String::new(), |after| format!("&after={after}"));
        let path = format!("/dispatch/dead?queue={}{after}", client::escaped(&queue));
        let text = endpoint.call("GET", &path, Vec::new())?;
        if json {
            writeln!(out, "{}", text.trim_end())?;
            return Ok(());
        }
        let page: DeadLetterPage = endpoint.parse(&text, &path)?;
        if page.dead.is_empty() {
            writeln!(out, "no dead letters in {queue}")?;
            return Ok(());
        }
        let width = page.dead.iter().map(|letter| letter.id.chars().count()).max().unwrap_or(0);
        let width = width.max("ID".len());
        writeln!(out, "{:>8}  {:width$}  FAILURES  WHY", "NUMBER", "ID")?;
        for DeadLetter { number, id, failures, why } in &page.dead {
            writeln!(out, "{number:>8}  {id:width$}  {failures:>8}  {why}")?;
        }
        if let Some(next) = page.next {
            writeln!(out, "there may be more: --after {next}")?;
        }
        Ok(())
    }
}

// === impl Change ===

impl Change {
    /// Redrives or purges the selected dead letters.
    fn run(self, verb: &str, out: &mut dyn Write) -> Result<()> {
        let Self { endpoint, queue, ids, all, json } = self;
        let selected = ids.len() as u64;
        let selection = match all {
            true => serde_json::json!({ "queue": queue }),
            false => serde_json::json!({ "queue": queue, "ids": ids }),
        };
        let path = format!("/dispatch/dead/{verb}");
        let text = endpoint.call("POST", &path, serde_json::to_vec(&selection)?)?;
        let ChangeResult { messages, stay, why } = endpoint.parse(&text, &path)?;
        if json {
            writeln!(out, "{}", text.trim_end())?;
        } else {
            writeln!(out, "{queue}: {}", done(verb, messages))?;
            for Unchanged { id, why } in why {
                writeln!(out, "  {id}: {why}")?;
            }
        }
        out.flush()?;
        if stay > 0 {
            let was = if stay == 1 { "was" } else { "were" };
            let done = if verb == "purge" { "deleted" } else { "redriven" };
            bail!("{} {was} not {done}", letters(stay));
        }
        let unknown = selected.saturating_sub(messages.saturating_add(stay));
        if unknown > 0 {
            bail!("{unknown} of the {selected} ids are not dead letters of {queue}");
        }
        Ok(())
    }
}

fn done(verb: &str, count: u64) -> String {
    match (verb, count) {
        ("purge", _) => format!("{} deleted", letters(count)),
        (_, 1) => "1 dead letter is pending again".into(),
        _ => format!("{count} dead letters are pending again"),
    }
}

fn letters(count: u64) -> String {
    if count == 1 { "1 dead letter".into() } else { format!("{count} dead letters") }
}
