//! Tests of the writer of the access log: it loses no line with a reader, and blocks no request
//! without one.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use super::served;
use crate::config::settings::LogFormat;
use crate::observe::access_log::AccessLog;

/// Keeps the written bytes.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

/// Blocks each write until the test releases it, and signals that a write began.
struct Stuck {
    tried: Sender<()>,
    go: Receiver<()>,
    kept: Kept,
}

struct Broken;

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        _ = self.tried.send(());
        _ = self.go.recv();
        self.kept.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lines(kept: &Kept) -> u64 {
    kept.0.lock().unwrap().iter().filter(|&&byte| byte == b'\n').count() as u64
}

#[test]
fn every_line_of_every_thread_is_written_whole_before_a_flush_returns() {
    let kept = Kept::default();
    let log = AccessLog::start(LogFormat::Json, kept.clone()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|_| log.write(&served("chat", "llama"))));
        }
    });
    log.flush();
    let bytes = kept.0.lock().unwrap().clone();
    let text = String::from_utf8(bytes).unwrap();
    assert_eq!(text.lines().count(), 2000);
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    assert_eq!(log.dropped(), 0);
}

#[test]
fn lines_of_a_stuck_reader_are_dropped_and_counted() {
    let ((tried, was_tried), (let_go, go)) = (channel(), channel());
    let kept = Kept::default();
    let sink = Stuck { tried, go, kept: kept.clone() };
    let log = AccessLog::start(LogFormat::Text, sink).unwrap();
    log.write(&served("chat", "llama"));
    was_tried.recv().unwrap();
    let sent = 40_000;
    for _ in 1..sent {
        log.write(&served("chat", "llama"));
    }
    let dropped = log.dropped();
    assert!(dropped > 0, "the reader took nothing");
    drop(let_go);
    log.flush();
    assert_eq!(lines(&kept) + dropped, sent, "each is either written or counted");
}

#[test]
fn a_reader_that_went_away_costs_the_lines_and_nothing_else() {
    let log = AccessLog::start(LogFormat::Text, Broken).unwrap();
    for _ in 0..10 {
        log.write(&served("chat", "llama"));
    }
    log.flush();
    assert_eq!(log.dropped(), 10);
}
