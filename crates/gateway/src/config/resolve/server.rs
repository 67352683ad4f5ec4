//! The sections `server`, `admin`, `epp`, `log` and `dbus`.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::{DAY, HOUR, MILLI};
use crate::config::Source;
use crate::config::keywords;
use crate::config::resolved::{Admin, Bus, Epp, Log, Server};
use crate::config::section::Section;

const ADDRESS: &str = "an address and a port such as 127.0.0.1:8080, 0.0.0.0:8080 or [::]:8080";

pub(super) fn resolve(mut section: Section<'_>, source: &Source) -> Server {
    let default = Server::default();
    let usize_of = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
    let mut server = Server {
        listen: listen(&mut section, "listen").unwrap_or(default.listen),
        workers: usize_of(section.whole("workers", 1..=1024)),
        body_limit: usize_of(section.size("body_limit", 1 << 10..=1 << 30))
            .unwrap_or(default.body_limit),
        bodies_limit: usize_of(section.size("bodies_limit", 1 << 10..=1 << 40))
            .unwrap_or(default.bodies_limit),
        // Below 8 KiB the HTTP/1 reader has no room for a head at all.
        header_limit: usize_of(section.size("header_limit", 8 << 10..=1 << 20))
            .unwrap_or(default.header_limit),
        connections_max: usize_of(section.whole("connections_max", 1..=1_000_000))
            .unwrap_or(default.connections_max),
        header_timeout: section
            .duration("header_timeout", MILLI..=DAY)
            .unwrap_or(default.header_timeout),
        body_timeout: section.duration("body_timeout", MILLI..=DAY).unwrap_or(default.body_timeout),
        write_timeout: section
            .duration("write_timeout", MILLI..=DAY)
            .unwrap_or(default.write_timeout),
        grace: section.duration("grace", MILLI..=DAY).unwrap_or(default.grace),
        headroom_headers: section.flag("headroom_headers").unwrap_or(default.headroom_headers),
        orca: section.flag("orca").unwrap_or(default.orca),
    };
    if server.bodies_limit / 2 < server.body_limit {
        let what = "is less than twice server.body_limit: give it room for two bodies".to_owned();
        section.refuse("bodies_limit", what);
    }
    flag(&section, "--listen", source.listen.as_deref(), &mut server.listen);
    section.finish();
    server
}

pub(super) fn epp(mut section: Section<'_>, source: &Source) -> Epp {
    let default = Epp::default();
    let mut epp = Epp {
        listen: listen(&mut section, "listen").unwrap_or(default.listen),
        health_listen: listen(&mut section, "health_listen").unwrap_or(default.health_listen),
        metrics_listen: listen(&mut section, "metrics_listen").unwrap_or(default.metrics_listen),
        fallbacks: section.count("fallbacks", 0..=16).map_or(default.fallbacks, |n| n as usize),
        drain: section.duration("drain", Duration::ZERO..=HOUR).unwrap_or(default.drain),
        conformance: section.flag("conformance").unwrap_or(default.conformance),
        llm_d_metrics: section.flag("llm_d_metrics").unwrap_or(default.llm_d_metrics),
    };
    // Whether it can be read is told once, by the section `server`.
    epp.listen = source.listen.as_deref().and_then(address).unwrap_or(epp.listen);
    flag(&section, "--health-listen", source.health_listen.as_deref(), &mut epp.health_listen);
    flag(&section, "--metrics-listen", source.metrics_listen.as_deref(), &mut epp.metrics_listen);
    let addresses = [epp.listen, epp.health_listen, epp.metrics_listen];
    let taken = |at: usize| addresses[at].port() != 0 && addresses[..at].contains(&addresses[at]);
    for (at, key) in [(1, "health_listen"), (2, "metrics_listen")] {
        if taken(at) {
            section.refuse(key, format!("is {}, where it listens already", addresses[at]));
        }
    }
    section.finish();
    epp
}

/// What a flag says goes before what a file says.
fn flag(section: &Section<'_>, name: &str, text: Option<&str>, place: &mut SocketAddr) {
    let Some(text) = text else { return };
    match address(text) {
        Some(address) => *place = address,
        None => section.report().flag_problem(format!("{name} is {text:?}, allowed is {ADDRESS}")),
    }
}

pub(super) fn admin(mut section: Section<'_>) -> Admin {
    let admin = Admin {
        listen: listen(&mut section, "listen"),
        ready_fails_when_saturated: section.flag("ready_fails_when_saturated").unwrap_or_default(),
    };
    section.finish();
    admin
}

pub(super) fn log(mut section: Section<'_>) -> Log {
    let default = Log::default();
    let log = Log {
        access: section.flag("access").unwrap_or(default.access),
        format: section.word("format", keywords::LOG_FORMATS).unwrap_or(default.format),
    };
    section.finish();
    log
}

pub(super) fn dbus(mut section: Section<'_>) -> Option<Bus> {
    let enabled = section.flag("enabled").unwrap_or_default();
    let bus = section.word("bus", keywords::BUSES).unwrap_or_default();
    if enabled && !cfg!(feature = "dbus") {
        section.notice("enabled", "has no effect: this program was built without D-Bus");
    }
    section.finish();
    enabled.then_some(bus)
}

pub(super) fn listen(section: &mut Section<'_>, key: &'static str) -> Option<SocketAddr> {
    let text = section.text(key)?;
    let address = address(&text);
    if address.is_none() {
        section.refuse(key, format!("is {text:?}, allowed is {ADDRESS}"));
    }
    address
}

pub(super) fn address(text: &str) -> Option<SocketAddr> {
    // The one name that needs nobody to look it up.
    match text.strip_prefix("localhost:") {
        Some(port) => port.parse().ok().map(|port| (Ipv4Addr::LOCALHOST, port).into()),
        None => text.parse().ok(),
    }
}
