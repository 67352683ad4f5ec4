//! Chaos: simulated engines that are killed, paused, slow and cut connections, and clients that
//! stall, leave, reset and half-close, all at random. Afterwards the outcome of each request as its
//! client saw it, the access log and the metrics must agree, and the gateway must hold nothing.
//!
//! A few seconds run with the other tests; `make chaos` runs ten minutes. `TIDEGATE_SEED` repeats
//! the choices of a run, but not the times at which processes act.

mod engines;
mod http1_clients;
mod http2_clients;
mod ledger;
mod traffic;

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::support::gateway::config;
use crate::support::keys::Keys;
use crate::support::{Gateway, Random, Stopwatch, chat, eventually};
use engines::Engines;
use ledger::{Ledger, check_log, check_metrics};
use traffic::Traffic;

const SECONDS: &str = "CHAOS_SECONDS";
const IN_CI: u64 = 4;
const HTTP1_CLIENTS: usize = 24;
const HTTP2_CONNECTIONS: usize = 4;
/// By how much memory may grow from the middle third to the end of a run of minutes.
const GROWTH_BYTES_MAX: u64 = 8 << 20;
const STEADY_AFTER_SECONDS: u64 = 120;
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Short times, so that each of them ends requests; few places, so that requests wait.
const SETTINGS: &str = "[server]\nheader_timeout = \"1s\"\nbody_timeout = \"1s\"\n\
    write_timeout = \"1s\"\n[log]\nformat = \"json\"\n[admin]\nwithout_key = \"all\"\n\
    [queue]\ntotal_capacity = 30\nqueue_ttl = \"2s\"\n\
    [upstream]\nconnect_timeout = \"500ms\"\nanswer_timeout = \"2s\"\nstall_timeout = \"1s\"\n\
    [health]\ninterval = \"200ms\"\ntimeout = \"500ms\"\neject_for = \"300ms\"\n\
    silence_limit = \"1s\"\nslow_start = \"1s\"\n\
    [controller]\nlower_bound_per_backend = 4\nwatermark_per_backend = 4\n\
    upper_bound_per_backend = 4\n\
    [[tenants]]\nname = \"alpha\"\nband_max = \"critical\"\n\
    [[tenants]]\nname = \"beta\"\nmax_in_flight = 5\nweight = 2\n\
    [[tenants]]\nname = \"gamma\"\nrequests_per_minute = 120\n";

/// What the process of the gateway holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    resident: u64,
}

fn held(gateway: &Gateway) -> Held {
    let folder = format!("/proc/{}/fd", gateway.process.id());
    let descriptors = fs::read_dir(folder).unwrap().count();
    Held { descriptors, resident: gateway.process.resident_bytes() }
}

#[test]
fn n05_n08_chaos_leaves_one_outcome_for_each_request_and_nothing_else() {
    let given = std::env::var(SECONDS).ok().and_then(|seconds| seconds.parse().ok());
    let seconds = given.unwrap_or(IN_CI);
    let mut random = Random::new("chaos");
    let keys = Keys::new();
    let tenants = ["alpha", "beta", "gamma"].map(|tenant| keys.tenant(tenant, "chaos"));
    let mut engines = Engines::reserve();
    let sections = format!("{SETTINGS}{}", keys.section());
    let gateway = Gateway::launch(&config(&sections, &engines.named()));
    // Without an engine no connection is kept, so this is the base for the end.
    gateway.await_idle();
    let base = held(&gateway);
    engines.start();
    gateway.await_ready(engines.count());
    let traffic = Arc::new(Traffic::new(gateway.address(), tenants.to_vec()));
    let clients = start_clients(&traffic, &mut random);
    let samples = disturb(seconds, &mut engines, &gateway, &mut random);
    traffic.end();
    for client in clients {
        client.join().unwrap();
    }
    engines.heal();
    gateway.await_idle();
    serve_again(&gateway, &tenants[0]);
    let ledger = traffic.ledger();
    engines.stop();
    report(&ledger, &samples, seconds);
    await_base(&gateway, base);
    if seconds >= STEADY_AFTER_SECONDS {
        check_memory(&samples);
    }
    finish(gateway, &ledger);
}

/// Compares the ledger after the gateway has ended, so that its log is complete.
fn finish(mut gateway: Gateway, ledger: &Ledger) {
    gateway.await_idle();
    let metrics = gateway.metrics();
    gateway.process.signal("TERM");
    assert!(gateway.process.exit().success());
    let lines = gateway.log_lines();
    check_log(ledger, &lines);
    check_metrics(&lines, &metrics);
}

fn start_clients(traffic: &Arc<Traffic>, random: &mut Random) -> Vec<thread::JoinHandle<()>> {
    let http1 = (0..HTTP1_CLIENTS).map(|_| {
        let (traffic, random) = (Arc::clone(traffic), random.fork());
        thread::spawn(move || http1_clients::run(&traffic, random))
    });
    let mut clients: Vec<_> = http1.collect();
    let (traffic, random) = (Arc::clone(traffic), random.fork());
    clients.push(thread::spawn(move || http2_clients::run(&traffic, HTTP2_CONNECTIONS, random)));
    clients
}

/// Disturbs the engines until the time is over, and samples what the gateway holds.
fn disturb(
    seconds: u64,
    engines: &mut Engines,
    gateway: &Gateway,
    random: &mut Random,
) -> Vec<Held> {
    let (watch, limit) = (Stopwatch::start(), Duration::from_secs(seconds));
    let (mut samples, mut shown) = (Vec::new(), Duration::ZERO);
    while watch.elapsed() < limit {
        engines.disturb(random);
        let sample = held(gateway);
        samples.push(sample);
        if watch.elapsed() - shown > PROGRESS_EVERY {
            shown = watch.elapsed();
            let ended = gateway.metrics().sum("tidegate_requests_total");
            let Held { descriptors, resident } = sample;
            let megabytes = resident >> 20;
            eprintln!(
                "{} s: {ended} requests, {} faults, {megabytes} MiB, {descriptors} descriptors",
                shown.as_secs(),
                engines.faults()
            );
        }
    }
    samples
}

/// The gateway serves as before: all engines are ready, and a request gets its response.
fn serve_again(gateway: &Gateway, key: &str) {
    eventually("served again", || {
        let response = gateway.ask(&chat("m").with("max_tokens", 3).key(key));
        if response.status == 200 { Ok(()) } else { Err(response.text()) }
    });
}

fn await_base(gateway: &Gateway, base: Held) {
    eventually("all descriptors closed", || match held(gateway) {
        now if now.descriptors <= base.descriptors => Ok(()),
        now => Err(format!("{now:?}, before the run {base:?}")),
    });
}

fn report(ledger: &Ledger, samples: &[Held], seconds: u64) {
    let most = samples.iter().map(|sample| sample.descriptors).max();
    let memory = samples.iter().map(|sample| sample.resident >> 20).max();
    eprintln!(
        "{seconds} s: {} requests; at most {} descriptors, {} MiB",
        ledger.entries.len(),
        most.unwrap_or(0),
        memory.unwrap_or(0)
    );
    eprintln!("{}", ledger.table());
}

fn check_memory(samples: &[Held]) {
    let median = |part: &[Held]| {
        let mut bytes: Vec<u64> = part.iter().map(|sample| sample.resident).collect();
        bytes.sort_unstable();
        bytes[bytes.len() / 2]
    };
    let third = samples.len() / 3;
    let (middle, last) = (median(&samples[third..2 * third]), median(&samples[2 * third..]));
    eprintln!("memory: {} KiB in the middle, {} KiB at the end", middle >> 10, last >> 10);
    assert!(last <= middle + GROWTH_BYTES_MAX, "{middle} grew to {last}");
}
