//! `tidegate engine`: the arguments of a stand-in model server.
//!
//! Where llm-d-inference-sim has a flag for the same thing, it has the same name here.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use testbed::engine::{Engine, Fault, Pace, Settings, Text, TokenPace};

/// Run a simulated model server: OpenAI's and Ollama's APIs, without a model and without a GPU.
///
/// The server behaves like a real engine: it has continuous batching up to a number of sequences,
/// its own queue for further requests, a KV cache that can become full, and metrics with vLLM's
/// names on /metrics. Its responses are random words. A request can ask for a fault with the header
/// x-fault. POST /control {"fault": NAME, "count": N} sets a fault for the next requests. GET
/// /control lists the requests.
#[derive(Args, Debug)]
#[command(after_help = "Faults:
  refuse[=SECONDS]  hang  reset  reset-after=TOKENS  STATUS[=RETRY_AFTER]  slow=MS
  garbage  bad-length  never-end  none (with /control: ends the fault that was set)

Examples:
  tidegate engine --model llama-3-8b
  tidegate engine --port 8001 --time-to-first-token 400 --inter-token-latency 30ms
  tidegate engine --profile rtx4090-8b --model llama-3-8b
  tidegate engine --service-time 200ms --max-num-seqs 8
  curl localhost:8000/v1/completions -H 'x-fault: reset-after=3' \\
    -d '{\"model\": \"stand-in\", \"prompt\": \"hello\", \"stream\": true}'")]
pub(crate) struct Arguments {
    /// The address to listen on; port 0 takes a free port. The default is 127.0.0.1:8000.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "port")]
    listen: Option<SocketAddr>,
    /// The port to listen on, on this machine only.
    #[arg(long)]
    port: Option<u16>,
    /// The name of a model to serve; may be repeated.
    #[arg(long, value_name = "NAME", default_value = "stand-in")]
    model: Vec<String>,
    /// Simulate one of the machines of the simulator, such as rtx4090-8b, h100-8b or ollama-4.
    #[arg(long, conflicts_with_all = ["service_time", "time_to_first_token",
        "inter_token_latency", "max_num_seqs", "max_model_len", "kv_cache_size", "block_size"])]
    profile: Option<String>,
    /// Every request takes exactly this long, whatever it asks for.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all =
        ["time_to_first_token", "inter_token_latency", "max_model_len", "kv_cache_size"])]
    service_time: Option<Duration>,
    /// The time from the start of a sequence to its first token: 150, 150ms or 0.15s.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "150ms")]
    time_to_first_token: Duration,
    /// The time from one token to the next.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "20ms")]
    inter_token_latency: Duration,
    /// The most sequences at once; further ones wait in the engine's own queue.
    #[arg(long, value_name = "N", default_value_t = 8)]
    max_num_seqs: u32,
    /// The most tokens that prompt and output have together.
    #[arg(long, value_name = "TOKENS", default_value_t = 8192)]
    max_model_len: u32,
    /// Blocks of the KV cache.
    #[arg(long, value_name = "BLOCKS", default_value_t = 4096)]
    kv_cache_size: u32,
    /// Tokens in a block, as the metrics report them.
    #[arg(long, value_name = "TOKENS", default_value_t = 16)]
    block_size: u32,
    /// The words of the responses: random words, or the words of the prompt.
    #[arg(long, value_enum, default_value_t = Mode::Random)]
    mode: Mode,
    /// How many of a hundred requests fail.
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    failure_injection_rate: u8,
    /// How these requests fail: faults as listed below, or llm-d-inference-sim's names for them.
    #[arg(long, value_name = "FAULT", value_delimiter = ',', default_value = "server_error")]
    failure_types: Vec<Fault>,
    /// The power that the server draws while it works, in watts. /control and /metrics report it.
    #[arg(long, value_name = "WATTS", default_value_t = 0.0)]
    power: f64,
    /// The seed of the random numbers: the same seed and requests give the same responses.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// Random words.
    Random,
    /// The words of the prompt.
    Echo,
}

// === impl Arguments ===

impl Arguments {
    /// Serves until the process is ended.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<()> {
        let settings = self.settings();
        let models = settings.models.join(", ");
        let engine = Engine::start(settings)?;
        writeln!(out, "listening on http://{}", engine.address())?;
        writeln!(out, "serving {models}")?;
        out.flush()?;
        Ok(engine.wait()?)
    }

    fn settings(self) -> Settings {
        let port = self.port.unwrap_or(8000);
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        Settings {
            listen: self.listen.unwrap_or(local),
            pace: self.pace(),
            text: match self.mode {
                Mode::Random => Text::Random,
                Mode::Echo => Text::Echo,
            },
            power_watts: self.power,
            failure_share: f64::from(self.failure_injection_rate) / 100.0,
            failures: self.failure_types,
            seed: self.seed,
            models: self.model,
        }
    }

    fn pace(&self) -> Pace {
        match (&self.profile, self.service_time) {
            (Some(name), _) => Pace::Profile(name.clone()),
            (None, Some(time)) => Pace::Service { time, at_once: self.max_num_seqs },
            (None, None) => Pace::Tokens(TokenPace {
                first_token: self.time_to_first_token,
                between: self.inter_token_latency,
                max_num_seqs: self.max_num_seqs,
                max_model_len: self.max_model_len,
                kv_blocks: self.kv_cache_size,
                block_size: self.block_size,
            }),
        }
    }
}

/// A duration with its unit, or bare milliseconds.
fn duration(text: &str) -> Result<Duration> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("s", 1.0), ("m", 60.0), ("", 1e-3)];
    let wrong = || anyhow!("{text:?} is no duration: say 150ms, 1.5s or 150 for milliseconds");
    let suffixed = |(unit, factor): (&str, f64)| Some((text.strip_suffix(unit)?, factor));
    let (number, factor) = units.into_iter().find_map(suffixed).ok_or_else(wrong)?;
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * factor).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_fault() {
        let help = Arguments::augment_args(clap::Command::new("engine")).render_long_help();
        assert!(help.to_string().contains("none (with /control"), "{help}");
    }

    #[test]
    fn durations_have_units_and_bare_ones_are_milliseconds() {
        let read =
            ["150", "150ms", "0.15s", "150000us", "0.0025m"].map(|text| duration(text).unwrap());
        assert_eq!(read, [Duration::from_millis(150); 5]);
        for wrong in ["", "ms", "fast", "-1s", "1e300s", "NaN"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
