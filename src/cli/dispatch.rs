//! `tidegate dispatch`: runs a dispatcher, or asks a running one.

mod dead_letters;
mod endpoint;
mod explain;

use std::io::Write;

use anyhow::Result;
use clap::{Args, Subcommand};
use gateway::DispatchServer;
use gateway::config::settings::dispatch::Queue;
use gateway::config::{Flag, Source};

use super::source::{File, value};
use super::{print, service_manager};

/// Send durable batch work while interactive traffic leaves capacity free.
///
/// Messages wait in Redis or in Google Cloud Pub/Sub (in the format of llm-d-async), or in the
/// folder of the Batch API. The dispatcher sends them to an OpenAI-compatible server. Gates read
/// the free capacity of that server and limit the requests in flight. A message is sent at least
/// once and has its result, also if a dispatcher dies. Several dispatchers may share a queue.
/// `tidegate serve --batch FOLDER` does the same for its own Batch API without a second process.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  tidegate dispatch --redis redis://127.0.0.1:6379 --queue request-sortedset \\
    --target http://127.0.0.1:8430
      One queue. Without a configured gate, the responses set the pace (gate kind aimd).
  tidegate dispatch tidegate.toml
      Queues and gates from a configuration file (docs/DISPATCH.md).
  tidegate dispatch explain
      Why a running dispatcher sends messages, or why it does not.
  tidegate dispatch dead list --queue request-sortedset
  tidegate dispatch dead redrive --queue request-sortedset --all
      List dead letters; make them pending again."
)]
pub(super) struct Dispatch {
    #[command(subcommand)]
    command: Option<DispatchCommand>,
    #[command(flatten)]
    run: Run,
}

#[derive(Debug, Subcommand)]
enum DispatchCommand {
    Explain(explain::Explain),
    /// List, redrive or purge dead letters: messages that failed too often.
    #[command(subcommand, after_help = dead_letters::EXAMPLES)]
    Dead(dead_letters::DeadLetters),
}

#[derive(Args, Debug)]
struct Run {
    #[command(flatten)]
    file: File,
    /// The Redis that holds the queues; repeat the flag for the replicas of one primary.
    #[arg(long, value_name = "URL")]
    redis: Vec<String>,
    /// A queue to send from; may be repeated.
    #[arg(long = "queue", value_name = "NAME")]
    queues: Vec<String>,
    /// The server that receives the requests.
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// The address of the status pages; port 0 picks a free port.
    #[arg(long, short, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
}

// === impl Dispatch ===

impl Dispatch {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        match self.command {
            None => self.run.run(out),
            Some(DispatchCommand::Explain(explain)) => explain.run(out),
            Some(DispatchCommand::Dead(dead_letters)) => dead_letters.run(out),
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
        let server = DispatchServer::start(Source { target, ..file.source(flags) })?;
        print(out, &format!("listening on {}://{}", server.scheme(), server.address()))?;
        for Queue { name, target, gates, .. } in server.queues() {
            let target = target.as_deref().unwrap_or_default();
            let gates = gates.join(", ");
            print(out, &format!("queue {name}: target {target}, gates {gates}"))?;
        }
        out.flush()?;
        service_manager::ready();
        server.run_until_signal()?;
        Ok(())
    }
}
