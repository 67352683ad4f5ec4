//! Simulated engines as processes that are killed, paused and disturbed at random.

use std::net::{Ipv4Addr, SocketAddr};
use std::process;
use std::thread;
use std::time::Duration;

use crate::support::{Call, HttpRequest, Process, Random};

/// Faults that an engine adds to a tenth of its requests.
const OWN_FAULTS: &str = "reset,reset-after=3,503,429,slow=300,garbage,bad-length,hang";
const COUNT: u8 = 4;
const PORT: u16 = 8000;
/// The longest pause of an engine, longer than each timeout of the gateway.
const PAUSE_MILLIS: u64 = 2500;
const BREAK_MILLIS: u64 = 300;

/// All engines of a run.
#[derive(Debug)]
pub(super) struct Engines {
    addresses: Vec<SocketAddr>,
    processes: Vec<Option<Process>>,
    faults: usize,
}

/// What is done to an engine.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    Kill,
    Pause,
    Slow,
    Refuse,
    Errors,
}

// === impl Engines ===

impl Engines {
    /// Addresses of engines that do not run yet. They are no source addresses of connections, so a
    /// killed engine always gets its port again.
    pub(super) fn reserve() -> Self {
        let [.., b, c] = process::id().to_be_bytes();
        let address = |number: u8| {
            SocketAddr::from((
                Ipv4Addr::new(127, 64 + number, b, c.max(1)),
                PORT + u16::from(number),
            ))
        };
        let addresses = (0..COUNT).map(address).collect();
        Self { addresses, processes: (0..COUNT).map(|_| None).collect(), faults: 0 }
    }

    pub(super) fn named(&self) -> Vec<(&'static str, SocketAddr)> {
        ["a", "b", "c", "d"].into_iter().zip(self.addresses.iter().copied()).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.addresses.len()
    }

    pub(super) fn faults(&self) -> usize {
        self.faults
    }

    pub(super) fn start(&mut self) {
        for number in 0..self.count() {
            self.start_one(number);
        }
    }

    fn start_one(&mut self, number: usize) {
        let listen = self.addresses[number].to_string();
        let seed = self.faults.to_string();
        let arguments = [
            ["engine", "--listen", &listen],
            ["--model", "m", "--time-to-first-token=15ms"],
            ["--inter-token-latency=3ms", "--failure-injection-rate=10", "--seed"],
        ];
        let arguments = [&arguments.concat()[..], &[&seed, "--failure-types", OWN_FAULTS]].concat();
        self.processes[number] = Some(Process::start(&arguments));
    }

    /// Disturbs one engine for a while.
    pub(super) fn disturb(&mut self, random: &mut Random) {
        let number = random.below(self.count() as u64) as usize;
        let all = [
            Disturbance::Kill,
            Disturbance::Pause,
            Disturbance::Slow,
            Disturbance::Refuse,
            Disturbance::Errors,
        ];
        self.faults += 1;
        match all[random.below(all.len() as u64) as usize] {
            Disturbance::Kill => {
                self.processes[number] = None;
                pause(random.below(BREAK_MILLIS));
                self.start_one(number);
            }
            Disturbance::Pause => {
                self.signal(number, "STOP");
                // Mostly short; sometimes longer than the timeouts.
                let longest = if random.below(4) == 0 { PAUSE_MILLIS } else { BREAK_MILLIS };
                pause(random.below(longest));
                self.signal(number, "CONT");
            }
            Disturbance::Slow => self.demand(number, "slow=400", 20),
            Disturbance::Refuse => self.demand(number, "refuse=1", 1),
            Disturbance::Errors => self.demand(number, "503", 10),
        }
        pause(random.below(BREAK_MILLIS));
    }

    fn signal(&self, number: usize, name: &str) {
        self.processes[number].as_ref().unwrap().signal(name);
    }

    /// Asks an engine for a fault.
    fn demand(&self, number: usize, fault: &str, count: u32) {
        let body = serde_json::json!({"fault": fault, "count": count}).to_string();
        let bytes = HttpRequest::post("/control", body).bytes();
        // An engine that is gone answers nothing, and needs no further fault.
        if let Ok(mut call) = Call::try_open(self.addresses[number], &bytes) {
            let _ = call.answer();
        }
    }

    /// Ends all demanded faults.
    pub(super) fn heal(&self) {
        for number in 0..self.count() {
            self.demand(number, "none", 1);
        }
    }

    pub(super) fn stop(&mut self) {
        for process in &mut self.processes {
            *process = None;
        }
    }
}

/// The engines' time passes in real time.
pub(super) fn pause(millis: u64) {
    thread::park_timeout(Duration::from_millis(millis));
}
