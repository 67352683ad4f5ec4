//! `tidegate key`: API keys of tenants and operators.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use gateway::api_keys::{self, AdminRight, ApiKey, KeyHolder, KeyLine};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Make API keys.
#[derive(Args, Debug)]
pub(super) struct Key {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    New(New),
}

/// Make a key and show it once.
///
/// The first line of the output is the key, for the client. The second line is for the gateway: add
/// it to the file that `auth.key_file` names. With --file, the command adds this line to the file
/// itself. A running gateway reads the changed file at once. The key itself is stored nowhere.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate key new --tenant team-a --name laptop
  tidegate key new --tenant team-a --name ci --expires 90d --file keys
  tidegate key new --admin read --name grafana --file keys

To withdraw a key, remove its line from the file.")]
struct New {
    /// The tenant of the key, by its name in the configuration.
    #[arg(
        long,
        value_name = "TENANT",
        required_unless_present = "admin",
        conflicts_with = "admin"
    )]
    tenant: Option<String>,
    /// Make a key for operators: to read the status pages, or to change something there.
    #[arg(long, value_name = "RIGHT")]
    admin: Option<Right>,
    /// The name of the key in logs, accounts and the key file.
    #[arg(long)]
    name: String,
    /// When the key expires: 2027-01-31, 2027-01-31T12:00:00Z or a number of days such as 90d.
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,
    /// Add the line to this file. The file is created if it does not exist.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Right {
    Read,
    Change,
}

// === impl Key ===

impl Key {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        let KeyCommand::New(new) = self.command;
        new.run(out)
    }
}

// === impl New ===

impl New {
    fn run(self, out: &mut dyn Write) -> Result<()> {
        let holder = holder(self.admin, self.tenant);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let expires = self.expires.as_deref().map(|text| expiry(text, now)).transpose()?;
        let key = ApiKey::generate().context("there are no random numbers")?;
        let line = KeyLine { digest: *key.digest(), holder, name: self.name, expires };
        // The names are checked as the gateway will check them.
        line.to_string().parse::<KeyLine>().map_err(|error| anyhow!("the key {error}"))?;
        match self.file {
            Some(file) => {
                add(&file, &line).with_context(|| file.display().to_string())?;
                writeln!(out, "{}", key.text())?;
            }
            None => writeln!(out, "{}\n{line}", key.text())?,
        }
        Ok(())
    }
}

fn holder(admin: Option<Right>, tenant: Option<String>) -> KeyHolder {
    match admin {
        Some(Right::Read) => KeyHolder::Admin(AdminRight::Read),
        Some(Right::Change) => KeyHolder::Admin(AdminRight::Change),
        None => KeyHolder::Tenant(tenant.unwrap_or_default()),
    }
}

fn expiry(text: &str, now: Duration) -> Result<u64> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    let expires = match days {
        Some(days) => Some((now + DAY * days).as_secs()),
        None => api_keys::expiry(text),
    };
    expires.filter(|expires| *expires > now.as_secs()).ok_or_else(|| {
        let forms = "give a time to come, as 2027-01-31, 2027-01-31T12:00:00Z or 90d";
        anyhow!("--expires is {text:?}: {forms}")
    })
}

/// Adds a line to a key file. A name that is taken is refused, so that each line can be found.
fn add(file: &Path, line: &KeyLine) -> Result<()> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let lines = api_keys::read_lines(&text)
        .map_err(|error| anyhow!("line {} {error}: mend it first", error.line))?;
    if lines.iter().any(|known| known.holder == line.holder && known.name == line.name) {
        bail!("{} has a key {:?} already: choose another --name", line.holder, line.name);
    }
    let mut open = OpenOptions::new().create(true).append(true).mode(0o600).open(file)?;
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    open.write_all(format!("{gap}{line}\n").as_bytes())?;
    Ok(open.sync_all()?)
}
