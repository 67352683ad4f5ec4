//! X03: a log whose reader has stopped reading does not stop the gateway.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;

use crate::support::gateway::{config, fresh_file};
use crate::support::tools::{run, tool};
use crate::support::wait::BOUND;
use crate::support::{Backend, Call, HttpRequest, chat, eventually};

/// The capacity of a pipe.
const PIPE: usize = 64 << 10;

#[test]
fn x03_a_full_log_pipe_stops_neither_probes_nor_the_shutdown() {
    let (backend, file) = (Backend::quick(), fresh_file());
    fs::write(&file, config("", &[("one", backend.address())])).unwrap();
    let (_reader, mut full) = std::io::pipe().unwrap();
    full.write_all(&[b'x'; PIPE]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(full);
    let mut child = command.spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    let (to, from) = channel();
    thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(stdout).read_line(&mut line);
        let _ = to.send(line);
    });
    // It must not wait for the log before it listens.
    let line = from.recv_timeout(BOUND).unwrap();
    let (_, address) = line.trim_end().split_once("http://").unwrap();
    let address: SocketAddr = address.parse().unwrap();
    // That the backend is ready is a line of the log.
    eventually("served", || {
        let response = Call::open(address, &chat("m").bytes()).finish();
        if response.status == 200 { Ok(()) } else { Err(response.text()) }
    });
    // So is that it has gone, which the watching thread finds out.
    backend.stop();
    eventually("unready", || {
        let page = Call::open(address, &HttpRequest::get("/backends").bytes()).finish().json();
        if page[0]["state"] == "ready" { Err(page.to_string()) } else { Ok(()) }
    });
    run(tool("sh").args(["-c", "kill -TERM $0", &child.id().to_string()]));
    eventually("ended", || match child.try_wait().unwrap() {
        Some(status) if status.success() => Ok(()),
        other => Err(format!("{other:?}")),
    });
}
