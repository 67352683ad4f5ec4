//! The command line of the existing picker (llm-d's router, and before it the Gateway API Inference
//! Extension), so that its deployments need another image and nothing else.
//!
//! Each of its flags stands in one table: what it sets here, or why it has no meaning. Both
//! spellings are known, `--pool-name` and the older `-poolName`, and its program has no commands,
//! so a command line that begins with one of these flags is one of `epp`.

mod endpoint_picker_config;

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use clap::error::Error;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use gateway::config::Flag;

pub(super) use endpoint_picker_config::{Mapping, Outcome};

/// A flag of the existing picker.
#[derive(Debug)]
struct KnownFlag {
    name: &'static str,
    /// The same with its dashes, as the origin of a value.
    flag: &'static str,
    means: Means,
}

#[derive(Clone, Copy, Debug)]
enum Means {
    /// The value of a key.
    Key(&'static str),
    /// A port, on all addresses.
    Port(&'static str),
    PoolGroup,
    /// The first port; there is one key for it.
    TargetPorts,
    Verbosity,
    LogFormat,
    SecureServing,
    ConfigFile,
    ConfigText,
    /// No meaning here; the text says why. A switch may stand without a value.
    Nothing(&'static str),
    Switch(&'static str),
}

macro_rules! flags {
    ($($name:literal => $means:expr,)*) => {
        &[$(KnownFlag { name: $name, flag: concat!("--", $name), means: $means },)*]
    };
}

const RECOGNISED: &str = "the engine and the names of its metrics are recognised";
const OWN_HINT: &str = "the names of the protocol are used";
const OWN_LOG: &str = "the log has one format for all levels";

const KNOWN: &[KnownFlag] = flags! {
    "pool-name" => Means::Key("discovery.kubernetes.pool"),
    "pool-namespace" => Means::Key("discovery.kubernetes.namespace"),
    "pool-group" => Means::PoolGroup,
    "endpoint-selector" => Means::Key("discovery.kubernetes.selector"),
    "endpoint-target-ports" => Means::TargetPorts,
    "grpc-port" => Means::Port("epp.listen"),
    "grpc-health-port" => Means::Port("epp.health_listen"),
    "metrics-port" => Means::Port("epp.metrics_listen"),
    "drain-timeout" => Means::Key("epp.drain"),
    "cert-path" => Means::Key("epp.cert_path"),
    "secure-serving" => Means::SecureServing,
    "refresh-metrics-interval" => Means::Key("metrics.interval"),
    "config-file" => Means::ConfigFile,
    "config-text" => Means::ConfigText,
    "v" => Means::Verbosity,
    "zap-encoder" => Means::LogFormat,
    "zap-devel" => Means::Switch(OWN_LOG),
    "zap-log-level" => Means::Nothing("--log-level sets the level"),
    "zap-stacktrace-level" => Means::Nothing(OWN_LOG),
    "zap-time-encoding" => Means::Nothing(OWN_LOG),
    "total-queued-requests-metric" => Means::Nothing(RECOGNISED),
    "total-running-requests-metric" => Means::Nothing(RECOGNISED),
    "kv-cache-usage-percentage-metric" => Means::Nothing(RECOGNISED),
    "lora-info-metric" => Means::Nothing(RECOGNISED),
    "cache-info-metric" => Means::Nothing(RECOGNISED),
    "enable-multi-engine" => Means::Switch(RECOGNISED),
    "engine-label-key" => Means::Nothing("the label is llm-d.ai/engine-type"),
    "model-server-metrics-scheme" => Means::Nothing("that of the backend is used"),
    "model-server-metrics-path" => Means::Nothing("that of the recognised engine is used"),
    "model-server-metrics-port" => Means::Nothing("that of the backend is used"),
    "model-server-metrics-https-insecure-skip-verify" => Means::Switch("certificates are checked"),
    "refresh-prometheus-metrics-interval" => Means::Nothing("metrics are counted as they happen"),
    "metrics-staleness-threshold" => Means::Nothing("the queue counts its own requests in flight"),
    "grpc-max-recv-msg-size" => Means::Nothing("server.body_limit bounds a request"),
    "grpc-max-send-msg-size" => Means::Nothing("messages to Envoy have at most 62,000 bytes"),
    "ha-enable-leader-election" => Means::Switch("each replica serves, with a queue of its own"),
    "disable-endpoint-subset-filter" => Means::Switch("a subset is always respected"),
    "emit-endpoint-scores" => Means::Switch("x-routing-reason and the log have the reasons"),
    "tls-min-version" => Means::Nothing("TLS 1.2 and 1.3 are accepted"),
    "kubeconfig" => Means::Nothing("discovery.kubernetes has the keys url, token_file and ca_file"),
    "destination-endpoint-hint-key" => Means::Nothing(OWN_HINT),
    "destination-endpoint-hint-metadata-namespace" => Means::Nothing(OWN_HINT),
    "enable-cert-reload" => Means::Switch("changed certificates are always read"),
    "health-checking" => Means::Switch("health checks are always on, on both ports"),
    "tracing" => Means::Switch("traces.endpoint switches traces on"),
    "enable-pprof" => Means::Switch("there are no profiles over HTTP"),
    "enable-grpc-stream-metrics" => Means::Switch("the metrics of requests are always on"),
    "metrics-endpoint-auth" => Means::Switch("keys protect the pages (docs/SECURITY.md)"),
    "metrics-client-ca-file" => Means::Nothing("keys protect the pages (docs/SECURITY.md)"),
    "metrics-cert-dir" => Means::Nothing("the pages of the picker have no TLS"),
    "allow-experimental-plugins" => Means::Switch("there are no plugins"),
};

/// What the existing picker has by default, and its deployments expect.
const IMPLIED: [(&str, &str, &str); 4] = [
    ("--grpc-port", "epp.listen", "0.0.0.0:9002"),
    ("--grpc-health-port", "epp.health_listen", "0.0.0.0:9003"),
    ("--metrics-port", "epp.metrics_listen", "0.0.0.0:9090"),
    ("llm-d's metric names", "epp.llm_d_metrics", "true"),
];

/// The groups of an InferencePool, and their names in the configuration.
const POOL_GROUPS: [(&str, &str); 2] =
    [("inference.networking.k8s.io", "stable"), ("inference.networking.x-k8s.io", "alpha")];

/// The flags that were given, with their values.
#[derive(Debug)]
pub(super) struct ExistingFlags(Vec<(&'static KnownFlag, String)>);

/// What the flags of the existing picker mean here.
#[derive(Debug, Default)]
pub(super) struct Translation {
    pub(super) flags: Vec<Flag>,
    pub(super) log_level: Option<&'static str>,
    /// One line for each setting without a meaning.
    pub(super) notes: Vec<String>,
}

/// The older spelling of a flag: `poolName`.
fn camel_case(name: &str) -> String {
    let mut words = name.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| {
        let (head, tail) = word.split_at(word.len().min(1));
        text + &head.to_uppercase() + tail
    })
}

/// A flag of the existing picker as this program spells it, if the argument is one.
fn respelt(argument: &str) -> Option<String> {
    let text = argument.strip_prefix('-')?;
    let text = text.strip_prefix('-').unwrap_or(text);
    let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
    let mut known = KNOWN.iter();
    let known = known.find(|known| known.name == name || camel_case(known.name) == name)?;
    Some(format!("{}{value}", known.flag))
}

/// A command line in this program's form: with the command `epp`, and with its spelling of flags.
pub(crate) fn with_command(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let respelt = |argument: &OsString| argument.to_str().and_then(respelt);
    if arguments.get(1).and_then(respelt).is_some() {
        arguments.insert(1, "epp".into());
    }
    if arguments.get(1).is_some_and(|command| command == "epp") {
        for argument in arguments.iter_mut().skip(2) {
            if let Some(flag) = respelt(argument) {
                *argument = flag.into();
            }
        }
    }
    arguments
}

// === impl Means ===

impl Means {
    fn is_switch(self) -> bool {
        matches!(self, Self::Switch(_) | Self::SecureServing)
    }
}

// === impl ExistingFlags ===

impl Args for ExistingFlags {
    fn augment_args(command: Command) -> Command {
        KNOWN.iter().fold(command, |command, known| {
            let argument = Arg::new(known.name).long(known.name).hide(true);
            let argument = argument.overrides_with(known.name).value_name("VALUE");
            command.arg(if known.means.is_switch() {
                argument.num_args(0..=1).require_equals(true).default_missing_value("true")
            } else {
                argument.num_args(1)
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ExistingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = KNOWN.iter().filter_map(|known| {
            let is_given = matches.value_source(known.name) == Some(ValueSource::CommandLine);
            let value = matches.get_one::<String>(known.name).filter(|_| is_given)?;
            Some((known, value.clone()))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ExistingFlags {
    /// The same as flags of this program. If there is any, the picker listens where the existing
    /// one does, because its probes and its Service expect that, unless an address is given.
    pub(super) fn translate(self) -> Result<Translation> {
        let mut to = Translation::default();
        if !self.0.is_empty() {
            to.flags.extend(IMPLIED.map(|(flag, key, value)| {
                let value = value.to_owned();
                Flag::Implied { flag, key, value }
            }));
        }
        for (known, value) in &self.0 {
            to.add(known, value)?;
        }
        Ok(to)
    }
}

// === impl Translation ===

impl Translation {
    fn push(&mut self, flag: &'static str, key: &'static str, value: &str) {
        self.flags.push(Flag::Value { flag, key, value: value.to_owned() });
    }

    fn note(&mut self, setting: &str, why: &str) {
        self.notes.push(format!("{setting} has no effect here: {why}"));
    }

    fn add(&mut self, known: &KnownFlag, value: &str) -> Result<()> {
        let flag = known.flag;
        match known.means {
            Means::Key(key) => self.push(flag, key, value),
            Means::Port(key) => {
                let Ok(port) = value.parse::<u16>() else {
                    bail!("{flag} is {value:?}, allowed is a port")
                };
                self.push(flag, key, &format!("0.0.0.0:{port}"));
            }
            Means::PoolGroup => {
                let Some((_, group)) = POOL_GROUPS.into_iter().find(|(name, _)| *name == value)
                else {
                    let [(stable, _), (alpha, _)] = POOL_GROUPS;
                    bail!("{flag} is {value:?}, allowed are {stable} and {alpha}")
                };
                self.push(flag, "discovery.kubernetes.pool_group", group);
            }
            Means::TargetPorts => {
                let mut ports = value.split(',');
                self.push(flag, "discovery.kubernetes.port", ports.next().unwrap_or_default());
                if ports.next().is_some() {
                    bail!("{flag} has several ports: name them in an InferencePool (--pool-name)")
                }
            }
            Means::Verbosity => self.log_level = Some(level(value)?),
            Means::LogFormat => {
                let format = if value == "json" { "json" } else { "text" };
                self.push(flag, "log.format", format);
            }
            Means::SecureServing if value == "false" => self.push(flag, "epp.tls", "off"),
            Means::SecureServing => {}
            Means::ConfigFile => self.add_config(&Mapping::read(Path::new(value))?),
            Means::ConfigText => {
                self.add_config(&Mapping::of(value).context("--config-text cannot be read")?);
            }
            Means::Nothing(why) | Means::Switch(why) => self.note(flag, why),
        }
        Ok(())
    }

    pub(super) fn add_config(&mut self, mapping: &Mapping) {
        for row in &mapping.rows {
            match &row.outcome {
                Outcome::Key(key, value) => self.push("--config-file", key, value),
                Outcome::Nothing(why) => self.note(&row.theirs, why),
                Outcome::Same(_) => {}
            }
        }
    }
}

/// The level of the log for a verbosity: its debug is 4 and its trace is 5.
fn level(verbosity: &str) -> Result<&'static str> {
    Ok(match verbosity.parse::<i64>() {
        Ok(..=3) => "info",
        Ok(4) => "debug",
        Ok(5..) => "trace",
        Err(_) => bail!("--v is {verbosity:?}, allowed is a number"),
    })
}
