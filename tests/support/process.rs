//! A `tidegate` process: it prints its addresses, and ends with its owner.

use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use super::wait::eventually;

/// A running `tidegate` command that listens.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Its addresses, in the order of printing.
    addresses: Vec<SocketAddr>,
    log: Lines,
    /// The access log, which it prints after that.
    access: Lines,
}

type Lines = Arc<Mutex<Vec<u8>>>;

fn gather(mut from: impl Read + Send + 'static, into: Lines) {
    let mut buffer = [0; 4096];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 {
            return;
        }
        into.lock().unwrap().extend(&buffer[..count]);
    }
}

// === impl Process ===

impl Process {
    /// Starts it and waits until it listens.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_saying(arguments, &["listening on http://"])
    }

    /// Starts it and waits until it has printed its addresses, in lines with these prefixes.
    pub(crate) fn start_saying(arguments: &[&str], words: &[&str]) -> Self {
        Self::start_in(arguments, words, &[])
    }

    /// The same with these environment variables.
    pub(crate) fn start_in(
        arguments: &[&str],
        words: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        // Variables that begin like this are settings for the process; the seed is one of the test.
        command.args(arguments).env_remove("TIDEGATE_SEED");
        command.envs(environment.iter().copied());
        Self::run(command, words)
    }

    /// Starts another program that prints its addresses in this way.
    pub(crate) fn run(mut command: Command, words: &[&str]) -> Self {
        command.stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (log, access) = (Lines::default(), Lines::default());
        let (stderr, into) = (child.stderr.take().unwrap(), Arc::clone(&log));
        thread::spawn(move || gather(stderr, into));
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut addresses = Vec::new();
        for word in words {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            // With JSON logs the line is an object, and the text stands in quotes.
            let address = line.trim_end().split_once(word);
            let address = address.and_then(|(_, rest)| rest.split('"').next());
            let Some(address) = address.and_then(|address| address.parse().ok()) else {
                // It may have ended already.
                let _ = child.kill();
                let status = child.wait().unwrap();
                let log = String::from_utf8_lossy(&log.lock().unwrap()).into_owned();
                panic!("{command:?} does not say {word:?}: {line:?} ({status})\n{log}");
            };
            addresses.push(address);
        }
        let into = Arc::clone(&access);
        thread::spawn(move || gather(stdout, into));
        Self { child, addresses, log, access }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The whole lines of the log so far. A line may come after the response that it is about.
    pub(crate) fn log(&self) -> String {
        let log = self.log.lock().unwrap();
        let end = log.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        String::from_utf8_lossy(&log[..end]).into_owned()
    }

    /// Waits until the log has these words so many times, and returns it.
    pub(crate) fn await_log(&self, words: &str, times: usize) -> String {
        eventually(words, || match self.log() {
            log if log.matches(words).count() >= times => Ok(log),
            log => Err(log),
        })
    }

    /// The access log so far.
    pub(crate) fn access(&self) -> String {
        String::from_utf8_lossy(&self.access.lock().unwrap()).into_owned()
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -$0 $1", name, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended by itself.
    pub(crate) fn exit(&mut self) -> ExitStatus {
        eventually("ended", || match self.child.try_wait().unwrap() {
            Some(status) => Ok(status),
            None => Err("it runs".into()),
        })
    }

    /// The memory that it has in use.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    }

    /// Its CPU time so far, in hundredths of a second.
    pub(crate) fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let log = self.log();
        if thread::panicking() {
            eprintln!("--- log of the process ---\n{log}");
        } else {
            assert!(!log.contains("panicked"), "{log}");
        }
    }
}
