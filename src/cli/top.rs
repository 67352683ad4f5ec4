//! `tidegate top`: the state of a running gateway in a terminal, once a second.
//!
//! One thread asks the gateway for `/status`, one reads the keys. The main thread draws when either
//! has something. A gateway that does not answer, or that is gone for a while, stops neither keys
//! nor drawing. The terminal is drawn by escape sequences: the view is a list of lines.

mod frame;
mod table;
mod view_state;

use std::io::{self, IsTerminal as _, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use console::{Key, Term};
use gateway::client;
use http::HeaderMap;
use serde_json::Value;

use self::frame::Painter;
use self::view_state::{Change, ViewState};
use super::plain;
use super::remote::{KeySource, Remote};

/// The server that error messages suggest where a response makes no sense.
const EXPECTED: &str = "a gateway";
const PATH: &str = "/status";
/// The size of a frame that does not go to a terminal.
const PLAIN_SIZE: (usize, usize) = (120, 60);
/// Another screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Watch a running gateway: the queue, the bands, the backends and the flows.
///
/// The command reads `GET /status` once a second and shows it. --url names a gateway on another
/// machine. If the pages need a key, put an admin key into TIDEGATE_API_KEY or into the file of
/// --key-file.
#[derive(Args, Debug)]
#[command(after_help = "Keys:
  s sort   r reverse   / filter   p or space pause   up, down scroll   q quit

Examples:
  tidegate top
  tidegate top --url http://10.0.0.5:8431
  tidegate top --once                      print one frame, for a script
  tidegate top --once --json               print the status as JSON")]
pub(super) struct Top {
    /// The address of the gateway's status pages.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8430")]
    url: String,
    #[command(flatten)]
    key: KeySource,
    /// The seconds between two readings.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// Show only flows and backends whose name contains this text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Print one frame and exit.
    #[arg(long)]
    once: bool,
    /// Print the status as JSON.
    #[arg(long, requires = "once")]
    json: bool,
}

/// What the main thread waits for.
enum TopEvent {
    Status(Result<Value, String>),
    Key(Key),
    /// The keys cannot be read any more.
    NoKeys,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "a number from 0.1 to 3600 is needed".into())
}

// === impl Top ===

impl Top {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        let remote = Remote::read(&self.url)?;
        let credentials = self.key.headers()?;
        if self.once {
            return self.print(&remote, &credentials, out);
        }
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            bail!("top needs a terminal; --once prints one frame");
        }
        let (events, received) = channel();
        let keys = events.clone();
        thread::spawn(move || read_keys(&keys));
        let (_alive, ended) = channel();
        let pause = Duration::from_secs_f64(self.interval);
        thread::spawn(move || read_statuses(&remote, &credentials, (pause, &ended), &events));
        let mut state = ViewState::new(self.url, self.filter);
        let painter =
            Painter { colours: std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty()) };
        write!(out, "{ENTER}")?;
        let outcome = loop {
            if let Err(error) = draw(&state, painter, out) {
                break Err(error);
            }
            match received.recv() {
                Ok(TopEvent::Status(status)) => state.read(status),
                Ok(TopEvent::Key(key)) if state.press(&key) == Change::Quit => break Ok(()),
                Ok(TopEvent::Key(_)) => {}
                Ok(TopEvent::NoKeys) | Err(_) => break Ok(()),
            }
        };
        write!(out, "{LEAVE}")?;
        out.flush()?;
        Ok(outcome?)
    }

    /// Prints one frame.
    fn print(self, remote: &Remote, credentials: &HeaderMap, out: &mut dyn Write) -> Result<()> {
        let status = ask(remote, credentials)?;
        if self.json {
            writeln!(out, "{status:#}")?;
            return Ok(());
        }
        let mut state = ViewState::new(self.url, self.filter);
        state.read(Ok(status));
        for line in frame::lines(&state, PLAIN_SIZE, Painter { colours: false }) {
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Draws over the last frame, which does not flicker.
fn draw(state: &ViewState, painter: Painter, out: &mut dyn Write) -> io::Result<()> {
    let (height, width) = Term::stdout().size();
    let size = (usize::from(width).max(20), usize::from(height).max(5));
    let mut text = String::from("\x1b[H");
    let lines = frame::lines(state, size, painter);
    let count = lines.len();
    for (at, line) in lines.into_iter().enumerate() {
        text += &line;
        text += "\x1b[K";
        text += if at + 1 < count { "\r\n" } else { "\x1b[J" };
    }
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn ask(remote: &Remote, credentials: &HeaderMap) -> Result<Value> {
    let response = client::ask(&remote.base, ("GET", PATH), credentials.clone(), Vec::new())
        .with_context(|| format!("is {EXPECTED} running at {}? set --url", remote.at("")))?;
    if !response.status.is_success() {
        bail!("{}", remote.refusal(&response, PATH, EXPECTED));
    }
    let unexpected = || format!("unexpected response from {}: is it {EXPECTED}?", remote.at(PATH));
    let status = serde_json::from_slice(&response.body).with_context(unexpected)?;
    Ok(plain::value(status))
}

/// Asks for the status again and again, until no frame needs it.
fn read_statuses(
    remote: &Remote,
    credentials: &HeaderMap,
    (pause, ended): (Duration, &Receiver<()>),
    events: &Sender<TopEvent>,
) {
    loop {
        let status = ask(remote, credentials).map_err(|error| format!("{error:#}"));
        if events.send(TopEvent::Status(status)).is_err() {
            return;
        }
        // The main thread sends nothing; its end wakes this one.
        if ended.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

fn read_keys(events: &Sender<TopEvent>) {
    let terminal = Term::stdout();
    loop {
        let event = terminal.read_key_raw().map_or(TopEvent::NoKeys, TopEvent::Key);
        let last = matches!(event, TopEvent::NoKeys);
        if events.send(event).is_err() || last {
            return;
        }
    }
}
