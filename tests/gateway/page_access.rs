//! X05, O05: who may change something at an address that other machines reach.

use std::fs;
use std::net::SocketAddr;

use crate::support::call::Response;
use crate::support::gateway::{config, fresh_file};
use crate::support::keys::Keys;
use crate::support::own_address::own_address;
use crate::support::{Backend, Call, HttpRequest, Process};

/// A gateway on all addresses, with one backend of the name `one`.
struct Wide {
    process: Process,
    _backend: Backend,
}

// === impl Wide ===

impl Wide {
    fn start(sections: &str, flags: &[&str]) -> Self {
        let (file, backend) = (fresh_file(), Backend::quick());
        fs::write(&file, config(sections, &[("one", backend.address())])).unwrap();
        let arguments = ["serve", "--config", file.to_str().unwrap()];
        let words = ["listening on http://", "visibility on http://"];
        let words = &words[..1 + usize::from(flags[1].starts_with("admin"))];
        let process = Process::start_saying(&[&arguments, flags].concat(), words);
        Self { process, _backend: backend }
    }

    /// Where the pages are, seen from another machine.
    fn afar(&self) -> SocketAddr {
        let pages = self.process.addresses().last().unwrap();
        SocketAddr::new(own_address(), pages.port())
    }

    fn at_home(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.afar().port()))
    }
}

fn ask(at: SocketAddr, request: &HttpRequest) -> Response {
    Call::open(at, &request.bytes()).finish()
}

fn post(at: SocketAddr, path: &str) -> Response {
    ask(at, &HttpRequest::post(path, "{}"))
}

const WIDE: [&str; 2] = ["--listen", "0.0.0.0:0"];

#[test]
fn x05_o05_another_machine_changes_nothing_without_a_key() {
    let narrow = ["--listen", "127.0.0.1:0"];
    let admin = ["--set", "admin.listen=0.0.0.0:0", "--set", "admin.without_key=all"];
    for flags in [WIDE.to_vec(), [admin.as_slice(), &narrow].concat()] {
        let wide = Wide::start("", &flags);
        for path in ["/backends/one/drain", "/backends/one/undrain", "/dispatch/dead/purge"] {
            let refused = post(wide.afar(), path);
            assert_eq!((refused.status, refused.code().as_str()), (403, "change_needs_key"));
            let said = refused.text();
            assert!(said.contains("tidegate key new --admin change"), "{said}");
        }
        let listed = ask(wide.afar(), &HttpRequest::get("/backends"));
        assert_eq!(listed.status, 200, "reading is as before");
        assert_ne!(listed.json()[0]["state"], "draining", "{}", listed.text());
        // An operator on this machine needs no key.
        let drained = post(wide.at_home(), "/backends/one/drain");
        assert_eq!(drained.json()["state"], "draining", "{}", drained.text());
        let expected = "a change there, such as a drain, needs an admin key";
        wide.process.await_log(expected, 1);
    }
}

/// A proxy on the gateway's machine connects by a loopback address for the clients of all machines.
#[test]
fn x05_o05_a_client_of_a_proxy_on_this_machine_changes_nothing_without_a_key() {
    let wide = Wide::start("", &WIDE);
    let drain = HttpRequest::post("/backends/one/drain", "");
    for (name, value) in [
        ("forwarded", "for=198.51.100.7"),
        ("x-forwarded-for", "198.51.100.7"),
        ("x-real-ip", "198.51.100.7"),
        ("via", "1.1 proxy"),
    ] {
        let refused = ask(wide.at_home(), &drain.clone().header(name, value));
        assert_eq!((refused.status, refused.code().as_str()), (403, "change_needs_key"), "{name}");
    }
    assert_eq!(ask(wide.at_home(), &drain).status, 200);
}

#[test]
fn x05_o05_another_machine_with_a_key_may_change_something() {
    let keys = Keys::new();
    let operator = keys.make(&["--admin", "change", "--name", "operator"]);
    let wide = Wide::start(&keys.section(), &WIDE);
    let drain = HttpRequest::post("/backends/one/drain", "");
    assert_eq!(ask(wide.afar(), &drain).status, 401);
    assert_eq!(ask(wide.afar(), &drain.key(&operator)).status, 200);
}
