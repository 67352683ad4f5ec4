//! What a stand-in engine is told, and what that means for the simulated engine behind it.
//!
//! Three ways to say how fast it is. A profile is a measured machine. A time to the first token
//! and one between tokens is what people know of theirs: each step then takes the latter, and
//! enough silent tokens precede the first. A service time is the simplest server there is.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use sim::engine::{BatchShape, Policy, Profile, Shape, SlotsShape, StepCost};

use super::fault::Fault;

/// Everything a stand-in engine is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The names it serves; the first one stands in its metrics.
    pub models: Vec<String>,
    /// How fast it is, and how much it takes at once.
    pub pace: Pace,
    /// What it says.
    pub text: Text,
    /// What it draws while it works.
    pub power_watts: f64,
    /// The share of requests that fail, from 0 to 1, and how.
    pub failure_share: f64,
    /// The ways in which they fail, one drawn for each.
    pub failures: Vec<Fault>,
    /// The seed of its random numbers: the same seed and requests give the same responses.
    pub seed: u64,
}

/// How fast an engine is, and how much it takes at once.
#[derive(Clone, Debug, PartialEq)]
pub enum Pace {
    /// A profile of the simulator by its name.
    Profile(String),
    /// Times per token.
    Tokens(TokenPace),
    /// Every request takes exactly this long, whatever it asks for; so many run at once.
    Service {
        /// How long.
        time: Duration,
        /// How many at once; the others wait in line.
        at_once: u32,
    },
}

/// Times per token of a batching engine, and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenPace {
    /// From the start of a sequence to its first token.
    pub first_token: Duration,
    /// From a token to the next one.
    pub between: Duration,
    /// The most sequences at once.
    pub max_num_seqs: u32,
    /// The most tokens that prompt and output have together.
    pub max_model_len: u32,
    /// Blocks of the KV cache.
    pub kv_blocks: u32,
    /// Tokens in a block.
    pub block_size: u32,
}

/// What an engine says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Text {
    /// Words drawn by chance.
    #[default]
    Random,
    /// The words of the prompt.
    Echo,
}

/// How requests become jobs of the simulated engine, and its tokens become theirs.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) profile: Profile,
    /// Tokens that the simulated engine makes before the first one that is shown.
    pub(super) silent: u32,
    /// Everything comes at the end, and the request's lengths do not matter.
    pub(super) whole: bool,
    /// The most tokens that prompt and output have together.
    pub(super) max_len: u32,
    /// What the metrics tell of the KV cache: tokens in a block, and blocks.
    pub(super) cache: Option<(u32, u32)>,
}

/// A step cannot take less: the timers of the runtime are no finer.
const STEP_MIN: Duration = Duration::from_micros(100);

/// Tokens in a block of the simulated engines.
const BLOCK: u32 = 16;

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)),
            models: vec!["stand-in".to_owned()],
            pace: Pace::Tokens(TokenPace::default()),
            text: Text::Random,
            power_watts: 0.0,
            failure_share: 0.0,
            failures: vec![Fault::Status(503, None)],
            seed: 1,
        }
    }
}

impl Settings {
    /// The rules, or the problem of the settings.
    pub(super) fn rules(&self) -> io::Result<Rules> {
        if self.models.is_empty() || self.models.iter().any(String::is_empty) {
            return Err(invalid("an engine needs the name of a model: give --model NAME".into()));
        }
        if !(0.0..=1.0).contains(&self.failure_share) {
            return Err(invalid("the share of failures must be from 0 to 1".into()));
        }
        if self.failure_share > 0.0 && self.failures.is_empty() {
            return Err(invalid("a share of failures needs at least one kind of failure".into()));
        }
        if !(self.power_watts.is_finite() && self.power_watts >= 0.0) {
            return Err(invalid("the power must be a number of watts, 0 or more".into()));
        }
        self.pace.rules()
    }
}

// === impl Pace ===

impl Pace {
    fn rules(&self) -> io::Result<Rules> {
        match self {
            Self::Profile(name) => named(name),
            Self::Tokens(pace) => pace.rules(),
            Self::Service { time, at_once } => service(*time, *at_once),
        }
    }
}

fn named(name: &str) -> io::Result<Rules> {
    let profile = Profile::named(name).ok_or_else(|| {
        let known = Profile::NAMES.join(", ");
        invalid(format!("no profile is called {name:?}: there are {known}"))
    })?;
    let (max_len, cache) = match profile.shape() {
        Shape::Batch(shape) => {
            let blocks = u32::try_from(shape.kv_tokens / u64::from(BLOCK)).unwrap_or(u32::MAX);
            (shape.max_len, Some((BLOCK, blocks)))
        }
        Shape::Ranks(shape) => {
            let tokens = shape.each.kv_tokens * u64::from(shape.ranks);
            let blocks = u32::try_from(tokens / u64::from(BLOCK)).unwrap_or(u32::MAX);
            (shape.each.max_len, Some((BLOCK, blocks)))
        }
        Shape::Slots(shape) => (shape.max_len, None),
    };
    Ok(Rules { profile, silent: 0, whole: false, max_len, cache })
}

fn service(time: Duration, at_once: u32) -> io::Result<Rules> {
    let rate = 1.0 / time.as_secs_f64();
    let shape =
        SlotsShape { slots: at_once, prefill_rate: rate, decode_rate: rate, max_len: u32::MAX };
    let profile = Profile::new("service time", Shape::Slots(shape))
        .map_err(|_| invalid("a service time is from 1 µs to 1000 s, for at least 1".into()))?;
    Ok(Rules { profile, silent: 0, whole: true, max_len: u32::MAX, cache: None })
}

// === impl TokenPace ===

impl Default for TokenPace {
    fn default() -> Self {
        Self {
            first_token: Duration::from_millis(150),
            between: Duration::from_millis(20),
            max_num_seqs: 8,
            max_model_len: 8192,
            kv_blocks: 4096,
            block_size: BLOCK,
        }
    }
}

impl TokenPace {
    fn rules(&self) -> io::Result<Rules> {
        let step = self.between.max(STEP_MIN);
        let steps = (self.first_token.as_secs_f64() / step.as_secs_f64()).round();
        let silent = (steps as u32).saturating_sub(1);
        let shape = BatchShape {
            // One block is set aside.
            kv_tokens: u64::from(self.kv_blocks) * u64::from(self.block_size) + u64::from(BLOCK),
            max_seqs: self.max_num_seqs,
            // Prompts cost nothing beyond the time to the first token, so they never wait for it.
            max_batched_tokens: u32::MAX,
            max_len: self.max_model_len.saturating_add(silent),
            policy: Policy::Arrival,
            step: StepCost {
                base: step.as_secs_f64() * 1000.0,
                token: 0.0,
                compute: 0.0,
                context: 0.0,
                sequence: 0.0,
                attention: 0.0,
                overhead: 0.0,
            },
        };
        let profile = Profile::new("flags", Shape::Batch(shape))
            .map_err(|wrong| invalid(format!("{} must be {}", wrong.key, wrong.must)))?;
        let cache = Some((self.block_size, self.kv_blocks));
        Ok(Rules { profile, silent, whole: false, max_len: self.max_model_len, cache })
    }
}

pub(super) fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
