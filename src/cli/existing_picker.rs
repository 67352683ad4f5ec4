//! The command line of the existing picker (llm-d's router, and before it the Gateway API Inference
//! Extension), so that its deployments need another image and nothing else.
//!
//! Each of its flags stands in one table: what it sets here, or why it has no meaning. Both
//! spellings are known, `--pool-name` and the older `-poolName`, and its program has no commands,
//! so a command line that begins with one of these flags is one of `epp`.

mod endpoint_picker_config;
mod flag_values;

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use clap::error::Error;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use gateway::config::{Flag, nearest};

use self::flag_values::{Form, boolean};

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
    /// The same for a duration.
    Span(&'static str),
    /// The same for a switch, which may stand without a value.
    Switch(&'static str),
    /// A port, on all addresses.
    Port(&'static str),
    PoolGroup,
    /// The first port; there is one key for it.
    TargetPorts,
    Verbosity,
    LogLevel,
    LogFormat,
    SecureServing,
    Tracing,
    ConfigFile,
    ConfigText,
    /// No meaning here; the text says why.
    Nothing(Form, &'static str),
    /// A switch, which may stand without a value. It is always so here; the text says why.
    Always(bool, &'static str),
}

macro_rules! flags {
    ($($name:literal => $means:expr,)*) => {
        &[$(KnownFlag { name: $name, flag: concat!("--", $name), means: $means },)*]
    };
}

const RECOGNISED: &str = "the engine and the names of its metrics are recognised";
const OWN_HINT: &str = "the names of the protocol are used";
const OWN_LOG: &str = "the log has one format for all levels";
const NO_LEADER: &str = "there is no leader: each ready replica takes requests and has a queue of \
                         its own, so order, shares and limits hold for each replica alone; run one \
                         replica for one queue";

const KNOWN: &[KnownFlag] = flags! {
    "pool-name" => Means::Key("discovery.kubernetes.pool"),
    "pool-namespace" => Means::Key("discovery.kubernetes.namespace"),
    "pool-group" => Means::PoolGroup,
    "endpoint-selector" => Means::Key("discovery.kubernetes.selector"),
    "endpoint-target-ports" => Means::TargetPorts,
    "grpc-port" => Means::Port("epp.listen"),
    "grpc-health-port" => Means::Port("epp.health_listen"),
    "metrics-port" => Means::Port("epp.metrics_listen"),
    "drain-timeout" => Means::Span("epp.drain"),
    "cert-path" => Means::Key("epp.cert_path"),
    "secure-serving" => Means::SecureServing,
    "refresh-metrics-interval" => Means::Span("metrics.interval"),
    "config-file" => Means::ConfigFile,
    "config-text" => Means::ConfigText,
    "v" => Means::Verbosity,
    "zap-encoder" => Means::LogFormat,
    "zap-log-level" => Means::LogLevel,
    "zap-devel" => Means::Always(false, OWN_LOG),
    "zap-stacktrace-level" => Means::Nothing(Form::StackLevel, OWN_LOG),
    "zap-time-encoding" => Means::Nothing(Form::TimeEncoding, OWN_LOG),
    "total-queued-requests-metric" => Means::Nothing(Form::Text, RECOGNISED),
    "total-running-requests-metric" => Means::Nothing(Form::Text, RECOGNISED),
    "kv-cache-usage-percentage-metric" => Means::Nothing(Form::Text, RECOGNISED),
    "lora-info-metric" => Means::Nothing(Form::Text, RECOGNISED),
    "cache-info-metric" => Means::Nothing(Form::Text, RECOGNISED),
    "enable-multi-engine" => Means::Always(true, RECOGNISED),
    "engine-label-key" => Means::Nothing(Form::Text, "the label is llm-d.ai/engine-type"),
    "model-server-metrics-scheme" => Means::Nothing(Form::Scheme, "that of the backend is used"),
    "model-server-metrics-path" => Means::Nothing(Form::Text, RECOGNISED),
    "model-server-metrics-port" => Means::Nothing(Form::Number, "that of the backend is used"),
    "model-server-metrics-https-insecure-skip-verify" =>
        Means::Always(false, "certificates are checked"),
    "refresh-prometheus-metrics-interval" =>
        Means::Nothing(Form::Duration, "metrics are counted as they happen"),
    "metrics-staleness-threshold" =>
        Means::Nothing(Form::Duration, "the queue counts its own requests in flight"),
    "grpc-max-recv-msg-size" => Means::Nothing(Form::Size, "server.body_limit bounds a request"),
    "grpc-max-send-msg-size" =>
        Means::Nothing(Form::Size, "messages to Envoy have at most 62,000 bytes"),
    "ha-enable-leader-election" => Means::Always(false, NO_LEADER),
    "disable-endpoint-subset-filter" => Means::Always(false, "a subset is always respected"),
    "emit-endpoint-scores" =>
        Means::Always(false, "x-routing-reason and the log have the reasons"),
    "tls-min-version" => Means::Nothing(Form::Text, "TLS 1.2 and 1.3 are accepted"),
    "kubeconfig" => Means::Nothing(
        Form::Text,
        "discovery.kubernetes has the keys url, token_file and ca_file",
    ),
    "destination-endpoint-hint-key" => Means::Nothing(Form::Text, OWN_HINT),
    "destination-endpoint-hint-metadata-namespace" => Means::Nothing(Form::Text, OWN_HINT),
    "enable-cert-reload" => Means::Always(true, "changed certificates are always read"),
    "health-checking" => Means::Always(true, "health checks are always on, on both ports"),
    "tracing" => Means::Tracing,
    "enable-pprof" => Means::Always(false, "there are no profiles over HTTP"),
    "enable-grpc-stream-metrics" =>
        Means::Always(true, "the metrics of requests are always on"),
    "metrics-endpoint-auth" => Means::Switch("admin.kubernetes_tokens"),
    "metrics-client-ca-file" =>
        Means::Nothing(Form::Text, "keys protect the pages (docs/SECURITY.md)"),
    "metrics-cert-dir" => Means::Nothing(Form::Text, "the pages of the picker have no TLS"),
    "allow-experimental-plugins" => Means::Always(false, "there are no plugins"),
};

/// What the existing picker has by default, and its deployments expect.
const IMPLIED: [(&str, &str, &str); 4] = [
    ("--grpc-port", "epp.listen", "0.0.0.0:9002"),
    ("--grpc-health-port", "epp.health_listen", "0.0.0.0:9003"),
    ("--metrics-port", "epp.metrics_listen", "0.0.0.0:9090"),
    ("llm-d's metric names", "epp.llm_d_metrics", "true"),
];

/// The same where pods are found through an API server, which can say what a token may do.
const IMPLIED_IN_CLUSTER: (&str, &str, &str) =
    ("--metrics-endpoint-auth", "admin.kubernetes_tokens", "true");

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
    /// Whether traces are wanted, if that was said.
    pub(super) tracing: Option<bool>,
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

/// An argument that is most likely a misspelt flag of the existing picker, with the dashes by which
/// the command line's parser takes it for one and suggests the right one.
fn misspelt(argument: &str) -> Option<String> {
    let text = argument.strip_prefix('-')?;
    let text = text.strip_prefix('-').unwrap_or(text);
    let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
    // One letter is a flag of this program, or the verbosity.
    if name.len() < 3 {
        return None;
    }
    let split = |letter: char| match letter.is_ascii_uppercase() {
        true => format!("-{}", letter.to_ascii_lowercase()),
        false => letter.to_string(),
    };
    let name: String = name.chars().map(split).collect();
    nearest(&name, KNOWN.iter().map(|known| known.name))?;
    Some(format!("--{name}{value}"))
}

/// A command line in this program's form: with the command `epp`, and with its spelling of flags.
pub(crate) fn with_command(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let first = arguments.get(1).and_then(|first| first.to_str()).unwrap_or_default();
    if (respelt(first).or_else(|| misspelt(first))).is_some() {
        arguments.insert(1, "epp".into());
    }
    if arguments.get(1).is_some_and(|command| command == "epp") {
        for argument in arguments.iter_mut().skip(2) {
            let text = argument.to_str().unwrap_or_default();
            let is_older = text.starts_with('-') && !text.starts_with("--");
            if let Some(flag) = respelt(text).or_else(|| misspelt(text).filter(|_| is_older)) {
                *argument = flag.into();
            }
        }
    }
    arguments
}

// === impl Means ===

impl Means {
    fn is_switch(self) -> bool {
        matches!(self, Self::Switch(_) | Self::Always(..) | Self::SecureServing | Self::Tracing)
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
            let in_cluster = |(known, _): &(&KnownFlag, String)| {
                matches!(known.name, "pool-name" | "endpoint-selector")
            };
            let is_in_cluster = self.0.iter().any(in_cluster);
            let implied = IMPLIED.into_iter().chain(is_in_cluster.then_some(IMPLIED_IN_CLUSTER));
            to.flags.extend(implied.map(|(flag, key, value)| {
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
            Means::Span(key) => {
                Form::Duration.check(flag, value)?;
                self.push(flag, key, value);
            }
            Means::Switch(key) => self.push(flag, key, &boolean(flag, value)?.to_string()),
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
            Means::Verbosity => self.log_level = Some(flag_values::verbosity(flag, value)?),
            Means::LogLevel => self.log_level = Some(flag_values::level(flag, value)?),
            Means::LogFormat => match value {
                "json" => self.push(flag, "log.format", "json"),
                "console" => self.push(flag, "log.format", "text"),
                _ => bail!("{flag} is {value:?}, allowed are json and console"),
            },
            Means::SecureServing => {
                if !boolean(flag, value)? {
                    self.push(flag, "epp.tls", "off");
                }
            }
            Means::Tracing => self.tracing = Some(boolean(flag, value)?),
            Means::ConfigFile => self.add_config(&Mapping::read(Path::new(value))?),
            Means::ConfigText => {
                self.add_config(&Mapping::of(value).context("--config-text cannot be read")?);
            }
            Means::Nothing(form, why) => {
                form.check(flag, value)?;
                self.note(flag, why);
            }
            Means::Always(here, why) => {
                if boolean(flag, value)? != here {
                    self.note(flag, why);
                }
            }
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
