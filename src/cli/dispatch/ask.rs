//! Questions to a dispatcher that runs.

use std::io::Write;

use anyhow::{Context as _, Result, bail};
use clap::{ArgGroup, Args, Subcommand};
use gateway::client;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cli::plain;
use crate::cli::remote::Remote;

/// What is asked where an answer makes no sense.
const MEANT: &str = "a dispatcher, or a gateway with a Batch API";

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
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("which").args(["ids", "all"]).required(true))]
pub(super) struct Some {
    #[command(flatten)]
    at: At,
    /// Whose dead.
    #[arg(long)]
    queue: String,
    /// Those with this id; may be repeated.
    #[arg(long = "id", value_name = "ID")]
    ids: Vec<String>,
    /// All of them.
    #[arg(long)]
    all: bool,
    /// Print JSON instead of a sentence.
    #[arg(long)]
    json: bool,
}

/// A page of the dead.
#[derive(Debug, Deserialize)]
struct Page {
    dead: Vec<Grave>,
    next: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Grave {
    number: u64,
    id: String,
    failures: u32,
    why: String,
}

#[derive(Debug, Deserialize)]
struct Done {
    messages: u64,
    /// Those that stay among the dead, and why the first of them do.
    stay: u64,
    why: Vec<Stays>,
}

#[derive(Debug, Deserialize)]
struct Stays {
    id: String,
    why: String,
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
        let said = self.at.ask("GET", page, Vec::new())?;
        let said = if self.json { said } else { plain::lines(&said) };
        writeln!(out, "{}", said.trim_end())?;
        Ok(())
    }
}

// === impl Dead ===

impl Dead {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        match self {
            Self::List(list) => list.run(out),
            Self::Redrive(some) => some.run(("redrive", "can be sent again"), out),
            Self::Purge(some) => some.run(("purge", "forgotten"), out),
        }
    }
}

// === impl List ===

impl List {
    fn run(self, out: &mut dyn Write) -> Result<()> {
        let Self { at, queue, after, json } = self;
        let after = after.map_or(String::new(), |after| format!("&after={after}"));
        let path = format!("/dispatch/dead?queue={}{after}", client::escaped(&queue));
        let said = at.ask("GET", &path, Vec::new())?;
        if json {
            writeln!(out, "{}", said.trim_end())?;
            return Ok(());
        }
        let page: Page = at.read(&said, &path)?;
        if page.dead.is_empty() {
            writeln!(out, "nobody is dead in {queue}")?;
            return Ok(());
        }
        let width = page.dead.iter().map(|grave| grave.id.chars().count()).max().unwrap_or(0);
        let width = width.max("ID".len());
        writeln!(out, "{:>8}  {:width$}  FAILURES  WHY", "NUMBER", "ID")?;
        for Grave { number, id, failures, why } in &page.dead {
            writeln!(out, "{number:>8}  {id:width$}  {failures:>8}  {why}")?;
        }
        if let Some(next) = page.next {
            writeln!(out, "and perhaps more: --after {next}")?;
        }
        Ok(())
    }
}

// === impl Some ===

impl Some {
    /// Does to them what the verb says; the other words say what became of them.
    fn run(self, (verb, done): (&str, &str), out: &mut dyn Write) -> Result<()> {
        let Self { at, queue, ids, all, json } = self;
        let asked = ids.len() as u64;
        let meant = match all {
            true => serde_json::json!({ "queue": queue }),
            false => serde_json::json!({ "queue": queue, "ids": ids }),
        };
        let path = format!("/dispatch/dead/{verb}");
        let said = at.ask("POST", &path, serde_json::to_vec(&meant)?)?;
        if json {
            writeln!(out, "{}", said.trim_end())?;
            return Ok(());
        }
        let Done { messages, stay, why } = at.read(&said, &path)?;
        writeln!(out, "{queue}: {messages} of the dead {done}")?;
        if stay > 0 {
            writeln!(out, "{queue}: {stay} stay among the dead")?;
        }
        for Stays { id, why } in why {
            writeln!(out, "  {id}: {why}")?;
        }
        let unknown = asked.saturating_sub(messages.saturating_add(stay));
        if unknown > 0 {
            bail!("{unknown} of the {asked} ids are not among the dead of {queue}");
        }
        Ok(())
    }
}

// === impl At ===

impl At {
    fn ask(&self, method: &str, path: &str, body: Vec<u8>) -> Result<String> {
        let remote = Remote::read(&self.url)?;
        let answer = client::ask(&remote.base, (method, path), body)
            .with_context(|| format!("is {MEANT} at {}? --url says where it is", self.url))?;
        if !answer.status.is_success() {
            bail!("{}", remote.refusal(&answer, path, MEANT));
        }
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    /// What an answer says, as it may be shown.
    fn read<T: DeserializeOwned>(&self, said: &str, path: &str) -> Result<T> {
        let strange = || format!("what {}{path} answered makes no sense: is it {MEANT}?", self.url);
        let said = serde_json::from_str(said).with_context(strange)?;
        serde_json::from_value(plain::value(said)).with_context(strange)
    }
}
