//! `tidegate dispatch`.

mod ask;

use std::io::Write;

use anyhow::Result;
use clap::{Args, Subcommand};
use gateway::Courier;
use gateway::config::resolved::dispatch::Queue;
use gateway::config::{Flag, Source};

use super::source::{File, value};

/// Send durable batch work into what interactive users leave free.
///
/// Messages wait in Redis (in the format of llm-d-async) or in the folder of the Batch API, and go
/// to an OpenAI-compatible server as the gates allow: never more than a reading of its free
/// capacity says. A message is sent at least once and has one result, whatever dies in between.
/// Several dispatchers may share a queue. `tidegate serve` does the same for its own Batch API
/// without a further process.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  tidegate dispatch --redis redis://127.0.0.1:6379 --queue request-sortedset \\
    --target http://127.0.0.1:8080                    one queue, paced by the answers alone
  tidegate dispatch tidegate.toml                     everything else (docs/DISPATCH.md)
  tidegate dispatch explain                           why it sends, or why it does not
  tidegate dispatch dead list --queue request-sortedset
  tidegate dispatch dead redrive --queue request-sortedset --all"
)]
pub(super) struct Dispatch {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    run: Run,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Explain(ask::Explain),
    /// Look after messages that failed too often.
    #[command(subcommand)]
    Dead(ask::Dead),
}

#[derive(Args, Debug)]
struct Run {
    #[command(flatten)]
    file: File,
    /// Where the queues are; may be repeated for the replicas of one primary.
    #[arg(long, value_name = "URL")]
    redis: Vec<String>,
    /// A queue; may be repeated.
    #[arg(long = "queue", value_name = "NAME")]
    queues: Vec<String>,
    /// The server that requests go to.
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// Where its pages are; port 0 takes a free one.
    #[arg(long, short, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
}

// === impl Dispatch ===

impl Dispatch {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        match self.verb {
            None => self.run.run(out),
            Some(Verb::Explain(explain)) => explain.run(out),
            Some(Verb::Dead(dead)) => dead.run(out),
        }
    }
}

// === impl Run ===

impl Run {
    fn run(self, out: &mut dyn Write) -> Result<()> {
        let Self { file, redis, queues, target, listen } = self;
        let (flag, key) = ("--redis", "dispatch.redis.urls");
        let redis = (!redis.is_empty()).then_some(Flag::List { flag, key, values: redis });
        let listen = value("--listen", "dispatch.listen", listen);
        let flags = redis.into_iter().chain(queues.into_iter().map(Flag::Queue)).chain(listen);
        let courier = Courier::start(Source { target, ..file.source(flags) })?;
        writeln!(out, "listening on http://{}", courier.address())?;
        for Queue { name, target, gates, .. } in courier.queues() {
            let target = target.as_deref().unwrap_or_default();
            writeln!(out, "queue {name} to {target} by {}", gates.join(" and "))?;
        }
        out.flush()?;
        courier.run_until_signal()?;
        Ok(())
    }
}
