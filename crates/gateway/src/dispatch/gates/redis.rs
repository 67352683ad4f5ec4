//! A gate that reads a number which somebody keeps in Redis.
//!
//! One `GET` now and then needs no client: the protocol is a handful of lines. Replies are bounded,
//! and a connection on which something went wrong is not used again. A key that is not there, or
//! that holds no number, closes the gate: whoever wants it open says so.

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::reading::{Reading, size, sound};
use crate::clock::Clock;
use crate::config::resolved::dispatch::System;

/// The longest line of a reply.
const LINE_MAX: u64 = 512;
/// The longest number in words.
const VALUE_MAX: usize = 128;
const PORT: u16 = 6379;

/// Where the number is.
#[derive(Debug)]
pub(super) struct RedisKey {
    pub(super) address: RedisAddress,
    pub(super) key: String,
    pub(super) clock: Clock,
    pub(super) system: System,
    pub(super) connection: Option<BufReader<TcpStream>>,
}

/// A server as its URL names it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct RedisAddress {
    place: String,
    user: Option<String>,
    password: Option<String>,
    database: u32,
}

/// What the server replied.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Text(String),
    Missing,
}

// === impl RedisKey ===

impl RedisKey {
    pub(super) fn source(&self) -> String {
        format!("{:?} in Redis at {}", self.key, self.address.place)
    }

    pub(super) async fn read(&mut self) -> Result<Reading, String> {
        // Whatever goes wrong from here on, the connection is dropped with it.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.address.connect().await?,
        };
        let reply = call(&mut connection, &["GET", &self.key]).await?;
        self.connection = Some(connection);
        let Reply::Text(text) = reply else {
            return Err(format!("the key {:?} is not there", self.key));
        };
        let value = text.trim().parse();
        let value = value.map_err(|_| format!("{:?} holds {text:?}, not a number", self.key))?;
        let free = sound(value, &self.key)?.clamp(0.0, 1.0);
        let system = size(&self.system, None, None)?;
        let at = self.clock.now();
        Ok(Reading { free, system, at, lag: flow::Span::ZERO, by: String::new() })
    }
}

/// Sends one command and reads its reply.
async fn call(connection: &mut BufReader<TcpStream>, words: &[&str]) -> Result<Reply, String> {
    let mut command = format!("*{}\r\n", words.len());
    for word in words {
        command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    let lost = |error: std::io::Error| format!("the connection broke: {error}");
    connection.write_all(command.as_bytes()).await.map_err(lost)?;
    connection.flush().await.map_err(lost)?;
    reply(connection).await
}

async fn reply(connection: &mut BufReader<TcpStream>) -> Result<Reply, String> {
    let line = line(connection).await?;
    let (kind, rest) = line.split_at_checked(1).unwrap_or_default();
    match kind {
        "+" | ":" => Ok(Reply::Text(rest.to_owned())),
        "-" => Err(format!("Redis refused: {rest}")),
        "$" if rest == "-1" => Ok(Reply::Missing),
        "$" => {
            let length: usize = rest.parse().map_err(|_| strange(&line))?;
            if length > VALUE_MAX {
                return Err(format!("it holds {length} bytes, which is no number"));
            }
            let mut bytes = vec![0; length + 2];
            let read = connection.read_exact(&mut bytes).await;
            read.map_err(|error| format!("the connection broke: {error}"))?;
            bytes.truncate(length);
            Ok(Reply::Text(String::from_utf8_lossy(&bytes).into_owned()))
        }
        _ => Err(strange(&line)),
    }
}

async fn line(connection: &mut BufReader<TcpStream>) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = connection.take(LINE_MAX).read_until(b'\n', &mut bytes).await;
    read.map_err(|error| format!("the connection broke: {error}"))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match text.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None if text.is_empty() => Err("the connection was closed".into()),
        None => Err(strange(&text)),
    }
}

fn strange(line: &str) -> String {
    let start: String = line.chars().take(40).collect();
    format!("it does not speak as Redis does: {start:?}")
}

// === impl RedisAddress ===

impl RedisAddress {
    /// Reads `redis://user:password@host:port/database`, of which only the host is needed.
    pub(super) fn read(url: &str) -> Result<Self, String> {
        // The URL may hold a password: it is not quoted.
        let wrong = |why: &str| format!("the URL of Redis is wrong: {why}");
        let rest = url
            .strip_prefix("redis://")
            .ok_or_else(|| wrong("write it as redis://host:port, without TLS"))?;
        let (server, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, place) = server.rsplit_once('@').map_or((None, server), |(a, b)| (Some(a), b));
        let (user, password) = match who.map(|who| who.split_once(':').unwrap_or(("", who))) {
            None => (None, None),
            Some((user, password)) => {
                let decode = |text| decoded(text).ok_or_else(|| wrong("a % stands alone in it"));
                (Some(decode(user)?).filter(|user| !user.is_empty()), Some(decode(password)?))
            }
        };
        let database = match database {
            "" => 0,
            number => number.parse().map_err(|_| wrong("its database must be a number"))?,
        };
        if place.is_empty() || place.starts_with(':') {
            return Err(wrong("the host is missing"));
        }
        let has_port = place.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let place = if has_port { place.to_owned() } else { format!("{place}:{PORT}") };
        Ok(Self { place, user, password, database })
    }

    async fn connect(&self) -> Result<BufReader<TcpStream>, String> {
        let stream = TcpStream::connect(&self.place).await;
        let stream =
            stream.map_err(|error| format!("cannot connect to {}: {error}", self.place))?;
        let mut connection = BufReader::new(stream);
        if let Some(password) = &self.password {
            let user = self.user.as_deref();
            let words: Vec<&str> = ["AUTH"].into_iter().chain(user).chain([&**password]).collect();
            call(&mut connection, &words).await?;
        }
        if self.database > 0 {
            call(&mut connection, &["SELECT", &self.database.to_string()]).await?;
        }
        Ok(connection)
    }
}

impl std::fmt::Debug for RedisAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Passwords have no place in logs.
        f.debug_struct("Address").field("place", &self.place).finish_non_exhaustive()
    }
}

/// A text in which %41 is an A.
fn decoded(text: &str) -> Option<String> {
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
