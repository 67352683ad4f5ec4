//! A Redis server for one test: Debian's server on a free port, with a folder of its own. It ends
//! with its owner. Tests read and change its data with plain commands; nothing here uses Tidegate's
//! code.
//!
//! The tests of `crates/store` use this file, too.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio, id};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How often a server is asked whether it is ready, and the pause between.
const ASKED: usize = 20_000;
const BETWEEN: Duration = Duration::from_millis(3);

/// A server, which can be killed and started again at the same address.
#[derive(Debug)]
pub(crate) struct Redis {
    folder: PathBuf,
    port: u16,
    options: Vec<String>,
    /// The primary that it watches, if it is a sentinel.
    watched: Option<u16>,
    server: Option<Child>,
}

/// A reply of the server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Nil,
    Number(i64),
    Text(String),
    Failure(String),
    List(Vec<Reply>),
}

/// Calls `look` until it returns a value.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..ASKED {
        if let Some(found) = look() {
            return found;
        }
        thread::park_timeout(BETWEEN);
    }
    panic!("never {what}");
}

/// A port for a server that ends and comes back. It lies below the range from which the system
/// takes ports by itself, so that no other socket takes it while the server is away.
pub(crate) fn kept_port() -> u16 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    until("a free port", || {
        // Two test processes at once begin at different ports.
        let number = id().wrapping_mul(31).wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed));
        let port = 20_000 + u16::try_from(number % 12_000).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok().then_some(port)
    })
}

// === impl Redis ===

impl Redis {
    /// A server that logs every write, as the documents recommend.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// A server with further options, such as `--requirepass secret`.
    pub(crate) fn start_with(options: &[&str]) -> Self {
        Self::start_as(options, None)
    }

    /// A sentinel that watches the primary at a port as `main`, and decides alone.
    pub(crate) fn sentinel(primary: u16, options: &[&str]) -> Self {
        Self::start_as(options, Some(primary))
    }

    fn start_as(options: &[&str], watched: Option<u16>) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // In memory if possible: the tests need the order of events, not the speed of a disk.
        let memory = PathBuf::from("/dev/shm");
        let root = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let folder = root.join(format!("tidegate-redis-{}-{number}", id()));
        fs::create_dir_all(&folder).unwrap();
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut redis = Self { folder, port: 0, options, watched, server: None };
        // Another process may take the port before the server does, which then ends at once.
        until("a port for Redis", || {
            redis.port = kept_port();
            redis.spawn().then_some(())
        });
        redis
    }

    /// Starts the server again with all that it has logged.
    pub(crate) fn restart(&mut self) {
        assert!(self.server.is_none(), "it runs");
        until("the old port for Redis", || self.spawn().then_some(()));
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }

    /// Starts the server; returns whether it is ready.
    fn spawn(&mut self) -> bool {
        let port = self.port.to_string();
        let mut command = Command::new("redis-server");
        if let Some(primary) = self.watched {
            let file = self.folder.join("sentinel.conf");
            let text = format!(
                "sentinel monitor main 127.0.0.1 {primary} 1\n\
                 sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n"
            );
            fs::write(&file, text).unwrap();
            command.arg(file).arg("--sentinel");
        } else {
            command.args(["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]);
        }
        command.args(["--port", &port, "--bind", "127.0.0.1", "--dir"]).arg(&self.folder);
        command.args(&self.options).stdin(Stdio::null()).stdout(Stdio::null());
        let started = command.stderr(Stdio::null()).spawn();
        let mut server = started.unwrap_or_else(|error| {
            panic!("redis-server cannot be started, run tools/setup.sh: {error}")
        });
        let ready = until("Redis is ready or gone", || {
            if server.try_wait().unwrap().is_some() {
                return Some(false);
            }
            let answer = self.try_call(&["PING"])?;
            let locked = matches!(&answer, Reply::Failure(text) if text.starts_with("NOAUTH"));
            (locked || answer == Reply::Text("PONG".into())).then_some(true)
        });
        if ready {
            self.server = Some(server);
        }
        ready
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The reply to a command.
    pub(crate) fn call(&self, command: &[&str]) -> Reply {
        self.try_call(command).unwrap_or_else(|| panic!("no answer to {command:?}"))
    }

    fn try_call(&self, command: &[&str]) -> Option<Reply> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
        let mut text = format!("*{}\r\n", command.len());
        for word in command {
            text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        // A server that is not Redis may be silent.
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        stream.write_all(text.as_bytes()).ok()?;
        Reply::read(&mut BufReader::new(stream))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

// === impl Reply ===

impl Reply {
    fn read(from: &mut impl BufRead) -> Option<Self> {
        let mut line = String::new();
        from.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let (kind, rest) = line.trim_end().split_at_checked(1)?;
        match (kind, rest) {
            ("+", text) => Some(Self::Text(text.to_owned())),
            ("-", text) => Some(Self::Failure(text.to_owned())),
            (":", number) => number.parse().ok().map(Self::Number),
            ("$" | "*", "-1") => Some(Self::Nil),
            ("$", count) => {
                let mut bytes = vec![0; count.parse::<usize>().ok()? + 2];
                from.read_exact(&mut bytes).ok()?;
                bytes.truncate(bytes.len() - 2);
                Some(Self::Text(String::from_utf8_lossy(&bytes).into_owned()))
            }
            ("*", count) => {
                let items = (0..count.parse::<usize>().ok()?).map(|_| Self::read(from));
                items.collect::<Option<_>>().map(Self::List)
            }
            _ => None,
        }
    }

    /// The strings of an array reply.
    pub(crate) fn texts(&self) -> Vec<String> {
        match self {
            Self::Nil => Vec::new(),
            Self::Number(number) => vec![number.to_string()],
            Self::Text(text) | Self::Failure(text) => vec![text.clone()],
            Self::List(items) => items.iter().flat_map(Self::texts).collect(),
        }
    }
}
