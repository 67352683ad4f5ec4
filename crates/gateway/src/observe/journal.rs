//! The log of a service of systemd: messages go to the journal with their fields, so that
//! `journalctl -p warning` and `journalctl TIDEGATE_BACKEND=gpu-a` find them.
//!
//! systemd names the journal's stream in a variable. If standard error is that stream, each message
//! is sent as one datagram in the journal's own protocol. A message that the journal does not take
//! at once goes to standard error instead: the log never blocks.

use std::fmt::{Debug, Write as _};
use std::fs::Metadata;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::{fs, io};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::log::LogWriter;

/// systemd sets it to the device and the inode of the journal's stream.
const STREAM: &str = "JOURNAL_STREAM";
const SOCKET: &str = "/run/systemd/journal/socket";
/// The prefix of fields that are not the journal's own.
const PREFIX: &str = "TIDEGATE_";

/// Sends messages to the journal.
#[derive(Debug)]
pub(super) struct Journal {
    socket: UnixDatagram,
}

/// The text of a message with its fields, and the fields alone.
#[derive(Debug, Default)]
struct JournalEntry {
    message: String,
    fields: Vec<(&'static str, String)>,
}

// === impl Journal ===

impl Journal {
    /// The journal, if standard error goes there.
    pub(super) fn of_stderr() -> Option<Self> {
        let stream = std::env::var(STREAM).ok()?;
        let stderr = fs::File::from(io::stderr().as_fd().try_clone_to_owned().ok()?);
        is_stream(&stream, &stderr.metadata().ok()?).then(|| Self::connect(SOCKET).ok()).flatten()
    }

    fn connect(socket: &str) -> io::Result<Self> {
        let datagrams = UnixDatagram::unbound()?;
        datagrams.connect(socket)?;
        datagrams.set_nonblocking(true)?;
        Ok(Self { socket: datagrams })
    }
}

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut entry = JournalEntry::default();
        event.record(&mut entry);
        let metadata = event.metadata();
        let datagram = entry.datagram(*metadata.level(), metadata.target());
        if self.socket.send(&datagram).is_err() {
            let line = format!("{} {}: {}\n", metadata.level(), metadata.target(), entry.text());
            // Standard error may be gone as well.
            let _ = io::Write::write_all(&mut LogWriter, line.as_bytes());
        }
    }
}

/// Whether a file is the stream of the variable.
fn is_stream(stream: &str, file: &Metadata) -> bool {
    let (device, inode) = stream.split_once(':').unwrap_or_default();
    device.parse() == Ok(file.dev()) && inode.parse() == Ok(file.ino())
}

// === impl JournalEntry ===

impl JournalEntry {
    /// As in the text format of the log: `journalctl` shows this alone.
    fn text(&self) -> String {
        let mut text = self.message.clone();
        for (name, value) in &self.fields {
            // Writing to a string cannot fail.
            _ = write!(text, " {name}={value}");
        }
        text
    }

    fn datagram(&self, level: Level, target: &str) -> Vec<u8> {
        let mut out = Vec::new();
        push(&mut out, "MESSAGE", &self.text());
        push(&mut out, "PRIORITY", priority(level));
        push(&mut out, "SYSLOG_IDENTIFIER", "tidegate");
        push(&mut out, "TIDEGATE_TARGET", target);
        for (name, value) in &self.fields {
            let name: String = name.chars().map(journal_letter).collect();
            push(&mut out, &format!("{PREFIX}{name}"), value.trim_matches('"'));
        }
        out
    }
}

impl Visit for JournalEntry {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            name => self.fields.push((name, format!("{value:?}"))),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields.push((name, format!("{value:?}"))),
        }
    }
}

/// Adds a field. A value of several lines has its length before it.
fn push(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        out.push(b'=');
    }
    out.extend_from_slice(value.as_bytes());
    out.push(b'\n');
}

/// Names of fields have capital letters, digits and underlines.
fn journal_letter(letter: char) -> char {
    if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' }
}

/// The priorities of syslog.
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        Level::DEBUG | Level::TRACE => "7",
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// The fields of a datagram, read as the protocol defines them.
    fn fields(mut rest: &[u8]) -> Vec<(String, String)> {
        let mut found = Vec::new();
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| matches!(byte, b'=' | b'\n')).unwrap();
            let name = String::from_utf8(rest[..end].to_vec()).unwrap();
            let (start, length) = if rest[end] == b'=' {
                let value = &rest[end + 1..];
                (end + 1, value.iter().position(|byte| *byte == b'\n').unwrap())
            } else {
                let size = rest[end + 1..end + 9].try_into().unwrap();
                (end + 9, usize::try_from(u64::from_le_bytes(size)).unwrap())
            };
            let value = String::from_utf8(rest[start..start + length].to_vec()).unwrap();
            found.push((name, value));
            rest = &rest[start + length + 1..];
        }
        found
    }

    #[test]
    fn m01_the_journal_gets_messages_with_their_fields() {
        let path = std::env::temp_dir().join(format!("tidegate-journal-{}", std::process::id()));
        let receiver = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::connect(path.to_str().unwrap()).unwrap();
        let subscriber = tracing_subscriber::registry().with(journal);
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(backend = "gpu-a", count = 3, "it\nfails");
        });
        fs::remove_file(path).unwrap();
        let mut datagram = vec![0; 4096];
        let length = receiver.recv(&mut datagram).unwrap();
        let found = fields(&datagram[..length]);
        let field = |name: &str| {
            let found = found.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str()).unwrap_or_default()
        };
        assert_eq!(field("MESSAGE"), "it\nfails backend=\"gpu-a\" count=3");
        assert_eq!((field("PRIORITY"), field("SYSLOG_IDENTIFIER")), ("4", "tidegate"));
        assert_eq!((field("TIDEGATE_BACKEND"), field("TIDEGATE_COUNT")), ("gpu-a", "3"));
        assert_eq!(field("TIDEGATE_TARGET"), module_path!());
    }

    #[test]
    fn m01_only_the_stream_that_systemd_names_is_the_journal() {
        let file = fs::metadata(std::env::temp_dir()).unwrap();
        let stream = format!("{}:{}", file.dev(), file.ino());
        assert!(is_stream(&stream, &file));
        for other in ["", ":", "1", "0:0", &format!("{}:{}", file.dev(), file.ino() + 1)] {
            assert!(!is_stream(other, &file), "{other}");
        }
    }
}
