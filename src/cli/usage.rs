//! `tidegate usage`: what tenants have used.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use gateway::client::{self, ClientResponse};
use serde::Deserialize;

use super::plain;
use super::remote::{KeySource, Remote};

/// The server that error messages suggest where a response makes no sense.
const EXPECTED: &str = "a gateway with [usage]";

/// Show what each tenant, key and model used.
///
/// The gateway needs a file for its accounts (`usage.file`). Put an admin key into
/// TIDEGATE_API_KEY. With the key of a tenant, the command shows only this tenant.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate usage                                  the last seven days, summed up
  tidegate usage --tenant team-a --since 30d
  tidegate usage --since 2027-01-01 --until 2027-01-31 --csv > january.csv")]
pub(super) struct Usage {
    /// The address of the gateway.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8430")]
    url: String,
    #[command(flatten)]
    key: KeySource,
    /// Only this tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// From this time on: 2027-01-31, 2027-01-31T12:00:00Z, or a span before now such as 30d.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Up to this time.
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Print the sums of each hour as CSV.
    #[arg(long)]
    csv: bool,
    /// Print the sums of each hour as JSON.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
}

#[derive(Deserialize)]
struct Page {
    data: Vec<Hour>,
}

/// The sums of an hour, as far as they are shown.
#[derive(Deserialize)]
struct Hour {
    tenant: String,
    key: String,
    model: String,
    requests: u64,
    refused: u64,
    prompt_tokens: u64,
    cached_tokens: u64,
    completion_tokens: u64,
    engine_seconds: f64,
}

// === impl Usage ===

impl Usage {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        let remote = Remote::read(&self.url)?;
        let mut hours = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let response = self.page(&remote, after.as_deref())?;
            if self.csv {
                write!(out, "{}", csv_rows(&response.body, after.is_none()))?;
            } else if self.json {
                write!(out, "{}", plain::lines(&String::from_utf8_lossy(&response.body)))?;
            } else {
                hours.extend(self.rows(&response.body)?);
            }
            let next = response.headers.get("x-next-after").and_then(|next| next.to_str().ok());
            after = next.map(str::to_owned);
            if after.is_none() {
                break;
            }
        }
        if self.csv || self.json { Ok(()) } else { write_sums(&hours, out) }
    }

    /// One page of the accounts.
    fn page(&self, remote: &Remote, after: Option<&str>) -> Result<ClientResponse> {
        let path = self.path(after);
        let response =
            client::ask(&remote.base, ("GET", &path), self.key.headers()?, Vec::new())
                .with_context(|| format!("is {EXPECTED} running at {}? set --url", self.url))?;
        if !response.status.is_success() {
            bail!("{}", remote.refusal(&response, "/usage", EXPECTED));
        }
        Ok(response)
    }

    fn rows(&self, body: &[u8]) -> Result<Vec<Hour>> {
        let page: Page = serde_json::from_slice(body)
            .with_context(|| format!("unexpected response from {}: is it {EXPECTED}?", self.url))?;
        Ok(page.data)
    }

    fn path(&self, after: Option<&str>) -> String {
        let mut path = format!("/usage?format={}", if self.csv { "csv" } else { "json" });
        if let Some(after) = after {
            path += &format!("&after={after}");
        }
        let values = [("tenant", &self.tenant), ("since", &self.since), ("until", &self.until)];
        for (name, value) in values {
            if let Some(value) = value {
                path += &format!("&{name}={}", client::escaped(value));
            }
        }
        path
    }
}

/// The rows of a page. Each page begins with the titles, which are printed once.
fn csv_rows(body: &[u8], is_first: bool) -> String {
    let text = String::from_utf8_lossy(body);
    let rows = text.split_once('\n').map_or("", |(_, rows)| rows);
    plain::lines(if is_first { &text } else { rows })
}

/// What a table without rows means.
const NOTHING: &str = "No request of a tenant is accounted in this time. Accounts are kept by \
                       tenant: name [[tenants]] and give them API keys (`tidegate key new`). \
                       --since shows an earlier time.";

fn write_sums(hours: &[Hour], out: &mut dyn Write) -> Result<()> {
    if hours.is_empty() {
        writeln!(out, "{NOTHING}")?;
        return Ok(());
    }
    let mut sums: BTreeMap<[&str; 3], ([u64; 5], f64)> = BTreeMap::new();
    for hour in hours {
        let (counts, seconds) = sums.entry([&hour.tenant, &hour.key, &hour.model]).or_default();
        let more = [
            hour.requests,
            hour.refused,
            hour.prompt_tokens,
            hour.cached_tokens,
            hour.completion_tokens,
        ];
        counts.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        *seconds += hour.engine_seconds;
    }
    let titles = ["tenant", "key", "model"].map(str::to_owned);
    let names = sums.keys().map(|names| names.map(plain::line));
    let rows: Vec<[String; 3]> = std::iter::once(titles).chain(names).collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let counts = ["requests", "refused", "prompt", "cached", "completion", "engine s"];
    let counts =
        std::iter::once(counts.map(str::to_owned)).chain(sums.values().map(|(counts, seconds)| {
            let [a, b, c, d, e] = counts.map(|count| count.to_string());
            [a, b, c, d, e, format!("{seconds:.1}")]
        }));
    for ([tenant, key, model], counts) in rows.iter().zip(counts) {
        let [one, two, three] = widths;
        write!(out, "{tenant:<one$}  {key:<two$}  {model:<three$}")?;
        for count in counts {
            write!(out, "  {count:>12}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}
