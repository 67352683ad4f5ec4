//! The kind `redis`: a number in a Redis key that another program maintains.
//!
//! The gate has a connection of its own and does not use that of the store. The store needs the
//! primary, loads its scripts, retries for seconds and reads replies of any size. A gate may read a
//! replica, must fail within its interval, and bounds each reply; one `GET` needs only a few lines
//! of the protocol. A connection is not used again after an error. A missing key, or a value that
//! is not a number, closes the gate.
//!
//! A number may have a time, in seconds since 1970: behind the number in the same value, or in a
//! key of its own. With a time, the number is as old as it says. Without one, its age is unknown:
//! an operator who sets a number by hand does not renew it.

use std::path::PathBuf;
use std::time::Duration;

use flow::budget::Basis;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use super::{
    GateContext, GateKind, Kind, KindDeclaration, OpenGate, PolledSource, ReadingFuture, Source,
};
use crate::clock::{Clock, since_epoch};
use crate::gates::error::{ReadError, RedisError, SetupError};
use crate::gates::reading::{Reading, capacity, finite};
use crate::gates::settings::{Capacity, GateSettings};
use crate::schema::{Form, Misfit, NOT_EMPTY, Range, Section, ValueType, Variant, key};
use crate::tls::{self, Protocol, TlsClient};
use crate::upstream::{Connection, ServerAddress, connect};

pub(super) const KIND: KindDeclaration = KindDeclaration {
    variant: Variant {
        name: "redis",
        aliases: &[],
        doc: "A number that another program keeps in Redis.",
        keys: &[
            key("url", ValueType::Text(&REDIS_URL), "The server.").required(),
            key(
                "ca_file",
                ValueType::Path,
                "A PEM file with the root certificates for a URL that begins with `rediss://`.",
            )
            .unset("the root certificates of the system"),
            key("key", ValueType::Text(&NOT_EMPTY), "The key.").default("dispatch-gate-budget"),
            key(
                "time_key",
                ValueType::Text(&NOT_EMPTY),
                "The key with the time of the number, in seconds since 1970.",
            )
            .unset("the time may follow the number in its own key, behind a space"),
            key(
                "missing",
                ValueType::Number(Range::closed(0.0, 1.0)),
                "The free share while the key does not exist; 1 as in llm-d-async.",
            )
            .unset("the gate is closed"),
        ],
    },
    read,
    knows_capacity: false,
    counts_servers: false,
};

/// The address of a Redis server.
pub(crate) const REDIS_URL: Form = Form {
    allowed: "redis://[user:password@]host:port[/db], or rediss:// with TLS",
    check: |url| match url.starts_with("redis://") || url.starts_with("rediss://") {
        true => Ok(()),
        false => Err(Misfit(format!("is {url:?}, write it as redis://host:6379"))),
    },
    example: "redis://10.0.0.5:6379",
};

/// The longest line of a reply.
const LINE_MAX: u64 = 512;
/// The longest number, in characters.
const VALUE_MAX: usize = 128;
const PORT: u16 = 6379;
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The settings of the kind `redis`.
#[derive(Clone, Debug, PartialEq)]
pub struct RedisGate {
    /// The server.
    pub url: String,
    /// The root certificates for a URL with TLS; by default those of the system.
    pub ca_file: Option<PathBuf>,
    /// The key.
    pub key: String,
    /// The key with the time of the number, if it has one of its own.
    pub time_key: Option<String>,
    /// The free share while the key does not exist; without it the gate is closed.
    pub missing: Option<f64>,
}

/// A key in Redis and the connection to it.
#[derive(Debug)]
struct RedisKey {
    address: RedisAddress,
    settings: RedisGate,
    clock: Clock,
    capacity: Capacity,
    stale_after: Duration,
    connection: Option<BufReader<Connection>>,
}

/// A server as its URL names it.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::gates) struct RedisAddress {
    address: String,
    tls: Option<TlsClient>,
    user: Option<String>,
    password: Option<String>,
    database: u32,
}

/// A reply of the server.
#[derive(Debug, PartialEq, Eq)]
enum RedisReply {
    Text(String),
    Missing,
}

fn read(section: &Section<'_>) -> Option<GateKind> {
    let url = section.given("url")?;
    let ca_file = section.path("ca_file");
    let (time_key, missing) = (section.given("time_key"), section.given("missing"));
    Some(GateKind::Redis(RedisGate { url, ca_file, key: section.get("key"), time_key, missing }))
}

// === impl RedisGate ===

impl Kind for RedisGate {
    fn declaration(&self) -> &'static KindDeclaration {
        &KIND
    }

    fn open(&self, gate: &GateSettings, context: &GateContext) -> Result<OpenGate, SetupError> {
        let source = RedisKey {
            address: RedisAddress::parse(&self.url, self.ca_file.clone())?,
            settings: self.clone(),
            clock: context.clock,
            capacity: gate.capacity.clone(),
            stale_after: gate.valid_for(),
            connection: None,
        };
        let description = format!("{:?} in Redis at {}", self.key, source.address.address);
        // The number contains none of our requests, so all of them count against it.
        Ok(OpenGate::new(Source::polled(source), description, Basis::Stated))
    }
}

// === impl RedisKey ===

impl PolledSource for RedisKey {
    fn read(&mut self) -> ReadingFuture<'_> {
        Box::pin(self.get())
    }
}

impl RedisKey {
    async fn get(&mut self) -> Result<Reading, ReadError> {
        // After an error the connection stays taken, and is dropped.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.address.connect().await?,
        };
        // The time comes first: a number that is replaced meanwhile is then newer, never older.
        let time = match &self.settings.time_key {
            Some(key) => Some((key, call(&mut connection, &["GET", key]).await?)),
            None => None,
        };
        let reply = call(&mut connection, &["GET", &self.settings.key]).await?;
        self.connection = Some(connection);
        self.reading(time, reply)
    }

    fn reading(
        &self,
        time: Option<(&String, RedisReply)>,
        reply: RedisReply,
    ) -> Result<Reading, ReadError> {
        let RedisGate { key, missing, .. } = &self.settings;
        let capacity = capacity(&self.capacity, None, None)?;
        let reading = |free: f64| Reading::instant(free, capacity, self.clock.now());
        let text = match (reply, missing) {
            (RedisReply::Text(text), _) => text,
            (RedisReply::Missing, Some(free)) => {
                return Ok(Reading { is_dated: false, ..reading(*free) });
            }
            (RedisReply::Missing, None) => return Err(RedisError::Missing(key.clone()).into()),
        };
        let mut words = text.split_ascii_whitespace();
        let free = finite(number(key, words.next().unwrap_or_default())?, key)?.clamp(0.0, 1.0);
        let time = match (time, words.next()) {
            (Some((key, RedisReply::Text(text))), _) => number(key, text.trim())?,
            (Some((key, RedisReply::Missing)), _) => {
                return Err(RedisError::Missing(key.clone()).into());
            }
            (None, Some(text)) => number(key, text)?,
            (None, None) => return Ok(Reading { is_dated: false, ..reading(free) }),
        };
        let made = Duration::try_from_secs_f64(time).unwrap_or_default();
        reading(free).aged((key, since_epoch().saturating_sub(made)), self.stale_after)
    }
}

fn number(key: &str, text: &str) -> Result<f64, RedisError> {
    let wrong = |_| RedisError::NotANumber { key: key.to_owned(), text: text.to_owned() };
    text.parse().map_err(wrong)
}

/// Sends one command and reads its reply.
async fn call(
    connection: &mut BufReader<Connection>,
    words: &[&str],
) -> Result<RedisReply, RedisError> {
    let mut command = format!("*{}\r\n", words.len());
    for word in words {
        command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    connection.write_all(command.as_bytes()).await.map_err(RedisError::Broken)?;
    connection.flush().await.map_err(RedisError::Broken)?;
    read_reply(connection).await
}

async fn read_reply(connection: &mut BufReader<Connection>) -> Result<RedisReply, RedisError> {
    let line = read_line(connection).await?;
    let (kind, rest) = line.split_at_checked(1).unwrap_or_default();
    match kind {
        "+" | ":" => Ok(RedisReply::Text(rest.to_owned())),
        "-" => Err(RedisError::Refused(rest.to_owned())),
        "$" if rest == "-1" => Ok(RedisReply::Missing),
        "$" => {
            let length = rest.parse().map_err(|_| protocol(&line))?;
            read_value(connection, length).await.map(RedisReply::Text)
        }
        _ => Err(protocol(&line)),
    }
}

/// Reads a value of a known length, and the line break behind it.
async fn read_value(
    connection: &mut BufReader<Connection>,
    length: usize,
) -> Result<String, RedisError> {
    if length > VALUE_MAX {
        return Err(RedisError::TooLong(length));
    }
    let mut bytes = vec![0; length + 2];
    connection.read_exact(&mut bytes).await.map_err(RedisError::Broken)?;
    bytes.truncate(length);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

async fn read_line(connection: &mut BufReader<Connection>) -> Result<String, RedisError> {
    let mut bytes = Vec::new();
    let read = connection.take(LINE_MAX).read_until(b'\n', &mut bytes).await;
    read.map_err(RedisError::Broken)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match text.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None if text.is_empty() => Err(RedisError::Closed),
        None => Err(protocol(&text)),
    }
}

fn protocol(line: &str) -> RedisError {
    RedisError::Protocol(line.chars().take(40).collect())
}

// === impl RedisAddress ===

impl RedisAddress {
    /// Parses `redis://user:password@host:port/database`, of which only the host is required, or
    /// the same with `rediss`, which means TLS.
    pub(in crate::gates) fn parse(url: &str, ca_file: Option<PathBuf>) -> Result<Self, SetupError> {
        let wrong = SetupError::RedisAddress;
        let (is_tls, rest) = match (url.strip_prefix("redis://"), url.strip_prefix("rediss://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return Err(wrong("write it as redis://host:port or rediss://…")),
        };
        let (server, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, address) =
            server.rsplit_once('@').map_or((None, server), |(login, rest)| (Some(login), rest));
        let (user, password) = match login.map(|text| text.split_once(':').unwrap_or(("", text))) {
            None => (None, None),
            Some((user, password)) => {
                let decode = |text| percent_decoded(text).ok_or(wrong("it has a bare %"));
                (Some(decode(user)?).filter(|user| !user.is_empty()), Some(decode(password)?))
            }
        };
        let database = match database {
            "" => 0,
            number => number.parse().map_err(|_| wrong("its database must be a number"))?,
        };
        if address.is_empty() || address.starts_with(':') {
            return Err(wrong("the host is missing"));
        }
        let port = address.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        let has_port = port.is_some_and(|port| port.is_ok());
        let address = if has_port { address.to_owned() } else { format!("{address}:{PORT}") };
        let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
        let name = tls::parse_name(host).ok_or(wrong("no certificate can be for its host"));
        let tls = is_tls.then_some(name).transpose()?;
        let tls = tls.map(|name| TlsClient::new(name, ca_file, Protocol::Other));
        Ok(Self { address, tls, user, password, database })
    }

    async fn connect(&self) -> Result<BufReader<Connection>, RedisError> {
        let (host, port) = self.address.rsplit_once(':').unwrap_or((&self.address, ""));
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let server = ServerAddress {
            // The port was checked when the URL was read.
            place: (host, port.parse().unwrap_or(PORT)),
            tls: self.tls.as_ref(),
        };
        let failed = |source| RedisError::Connect { address: self.address.clone(), source };
        let connection = connect(server, CONNECT_LIMIT).await.map_err(failed)?;
        let mut connection = BufReader::new(connection);
        self.log_in(&mut connection).await?;
        Ok(connection)
    }

    /// Sends the password and selects the database, where the URL has them.
    async fn log_in(&self, connection: &mut BufReader<Connection>) -> Result<(), RedisError> {
        if let Some(password) = &self.password {
            let user = self.user.as_deref();
            let words: Vec<&str> = ["AUTH"].into_iter().chain(user).chain([&**password]).collect();
            call(connection, &words).await?;
        }
        if self.database > 0 {
            call(connection, &["SELECT", &self.database.to_string()]).await?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for RedisAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The password must not appear in logs.
        f.debug_struct("RedisAddress").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Decodes `%41` to `A`.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}
