//! M03: `tidegate top` in a real terminal, which tmux provides.

use std::net::SocketAddr;
use std::process::{self, Command};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::gateway::{ONE, config, fresh_file};
use crate::support::keys::Keys;
use crate::support::tools::{run, tool};
use crate::support::{Backend, Call, Gateway, Process, chat, eventually};

/// A terminal of 120 by 40 with one command in it.
struct Terminal(String);

// === impl Terminal ===

impl Terminal {
    fn start(url: &str, key: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let terminal = Self(format!("tidegate-{}-{number}", process::id()));
        let program = env!("CARGO_BIN_EXE_tidegate");
        let command =
            format!("env TIDEGATE_API_KEY={key} {program} top --url {url} --interval 0.2");
        let size = ["-x", "120", "-y", "40"];
        run(terminal.tmux().args(["-f", "/dev/null", "new-session", "-d"]).args(size).arg(command));
        terminal
    }

    fn tmux(&self) -> Command {
        let mut command = tool("tmux");
        command.args(["-L", &self.0]);
        command
    }

    fn screen(&self) -> String {
        run(self.tmux().args(["capture-pane", "-p"]))
    }

    fn press(&self, keys: &[&str]) {
        run(self.tmux().arg("send-keys").args(keys));
    }

    /// Waits until the screen meets a condition.
    fn shows(&self, what: &str, is_there: impl Fn(&str) -> bool) {
        eventually(what, || {
            let screen = self.screen();
            if is_there(&screen) { Ok(()) } else { Err(screen) }
        });
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended if its command has.
        let _ = self.tmux().arg("kill-server").output();
    }
}

/// The line of a table that begins with this name.
fn row<'a>(screen: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let mut rows = screen.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.find(|words| words.first() == Some(&name))
}

const TEAMS: &str = "[queue]\nflow_by = [\"header:x-team\"]\nslo_ttft = \"1m\"\n";

#[test]
fn m03_top_shows_who_waits_and_can_be_sorted_filtered_and_paused() {
    let backend = Backend::held();
    let team = |name: &str| chat("m").header("x-team", name);
    let (gateway, running) = Gateway::occupied(&format!("{TEAMS}{ONE}"), &backend, &team("busy"));
    let waits = |name: &str, others: usize| gateway.enqueue(&team(name), others);
    let mut calls: Vec<Call> = vec![running, waits("lab", 0), waits("web", 1), waits("web", 2)];
    let terminal = Terminal::start(&gateway.url(), "");
    let cell = |screen: &str, name: &str, at: usize| Some(row(screen, name)?.get(at)?.to_string());
    terminal.shows("the flows", |screen| {
        cell(screen, "web", 1).as_deref() == Some("2")
            && cell(screen, "lab", 1).as_deref() == Some("1")
    });
    terminal.shows("the rest", |screen| {
        let queue = screen.contains("3 of 1000 wait");
        let backend = row(screen, "one").is_some_and(|row| row[1] == "ready" && row[2] == "1");
        let bands = row(screen, "normal").is_some_and(|row| row[1] == "3");
        queue && backend && bands
    });
    let order = |screen: &str, names: [&str; 2]| {
        let at = |name: &str| screen.lines().position(|line| line.starts_with(name));
        at(names[0]).is_some() && at(names[0]) < at(names[1])
    };
    terminal.shows("the most first", |screen| order(screen, ["web", "lab"]));
    terminal.press(&["s", "s", "s"]);
    terminal.shows("by name", |screen| order(screen, ["lab", "web"]));
    terminal.press(&["/", "w", "e", "Enter"]);
    terminal
        .shows("filtered", |screen| row(screen, "web").is_some() && row(screen, "lab").is_none());
    terminal.press(&["p"]);
    terminal.shows("paused", |screen| screen.contains("[paused]"));
    backend.open();
    calls.drain(..).for_each(|call| assert_eq!(call.finish().status, 200));
    gateway.await_idle();
    assert_eq!(cell(&terminal.screen(), "web", 1).as_deref(), Some("2"), "it is paused");
    terminal.press(&["p"]);
    terminal.shows("idle", |screen| screen.contains("0 of 1000 wait"));
    terminal.press(&["q"]);
    eventually("ended", || {
        let alive = terminal.tmux().arg("list-sessions").output().unwrap().status.success();
        if alive { Err("it runs".into()) } else { Ok(()) }
    });
}

#[test]
fn m03_top_needs_the_key_of_an_operator_and_comes_back_after_a_restart() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.make(&["--admin", "read", "--name", "desk"]);
    let sections = format!("{}[[tenants]]\nname = \"lab\"\n{ONE}", keys.section());
    let file = fresh_file();
    std::fs::write(&file, config(&sections, &[("one", backend.address())])).unwrap();
    let serve =
        |address: &str| Process::start(&["serve", file.to_str().unwrap(), "--listen", address]);
    let gateway = serve("127.0.0.1:0");
    let address: SocketAddr = gateway.address();
    let url = format!("http://{address}");
    let (stranger, operator) = (Terminal::start(&url, ""), Terminal::start(&url, &key));
    operator.shows("the backend", |screen| row(screen, "one").is_some());
    stranger.shows("a refusal", |screen| {
        screen.contains("An API key is needed") && row(screen, "one").is_none()
    });
    drop(gateway);
    operator.shows("the loss", |screen| screen.contains("no status, trying again"));
    let _gateway = serve(&address.to_string());
    operator.shows("the return", |screen| {
        !screen.contains("no status") && row(screen, "one").is_some()
    });
}
