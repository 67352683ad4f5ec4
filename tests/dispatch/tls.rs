//! X04: TLS to Redis, with the real server.

use std::fs;
use std::path::PathBuf;

use super::fixture::{Dispatcher, QUEUE, QUICK, await_results, config, submit, unix};
use crate::support::redis::kept_port;
use crate::support::tls::Authority;
use crate::support::{Backend, Redis, fresh_file};

/// The options of servers that speak TLS, and the file with the issuer of their certificate.
fn tls_options() -> (Vec<String>, PathBuf) {
    let authority = Authority::new("test");
    let keyed = authority.issue(&["localhost", "127.0.0.1"]);
    let folder = fresh_file().parent().unwrap().to_owned();
    let write = |name: &str, content: &str| {
        let file = folder.join(name);
        fs::write(&file, content).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let certificate = write("redis.crt", &keyed.certificate);
    let key = write("redis.key", &keyed.key);
    let roots = write("redis-ca.pem", &authority.pem());
    let files = ["--tls-cert-file", &certificate, "--tls-key-file", &key];
    let others = ["--tls-ca-cert-file", &roots, "--tls-replication", "yes"];
    let options = [&files[..], &others, &["--tls-auth-clients", "no"]].concat();
    (options.into_iter().map(str::to_owned).collect(), roots.into())
}

/// Starts a server that speaks TLS on a second port.
fn with_tls_port(options: &[String], start: impl Fn(&[&str]) -> Redis) -> (Redis, u16) {
    let port = kept_port();
    let number = port.to_string();
    let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
    options.extend(["--tls-port", &number]);
    (start(&options), port)
}

/// A server that speaks TLS on a second port, and the file with the issuer of its certificate.
fn redis_with_tls() -> (Redis, u16, PathBuf) {
    let (options, roots) = tls_options();
    let (redis, port) = with_tls_port(&options, Redis::start_with);
    (redis, port, roots)
}

/// The configuration with TLS to Redis, for the queue and for a gate.
fn with_tls(redis: &Redis, port: u16, keys: &str, backend: &Backend) -> String {
    let url = format!("rediss://localhost:{port}");
    let gate = format!(
        "[[dispatch.gates]]\nname = \"number\"\nkind = \"redis\"\nurl = \"{url}\"\n{keys}\n\
         capacity = 100\nbaseline = 0.0\n"
    );
    let text = config(&format!("{QUICK}{gate}"), "\"open\", \"number\"", redis, backend.address());
    let urls = format!("urls = [\"{}\"]\n", redis.url());
    assert!(text.contains(&urls));
    text.replace(&urls, &format!("urls = [\"{url}\"]\n{keys}\n"))
}

#[test]
fn x04_d01_queues_and_gates_reach_redis_by_tls() {
    let (redis, port, roots) = redis_with_tls();
    redis.call(&["SET", "dispatch-gate-budget", "1.0"]);
    let backend = Backend::quick();
    let keys = format!("ca_file = \"{}\"", roots.display());
    let dispatcher = Dispatcher::start(&with_tls(&redis, port, &keys, &backend));
    submit(&redis, "one", unix() + 600);
    assert_eq!(await_results(&redis, 1)[0]["status_code"], 200);
    assert!(dispatcher.queue(QUEUE).to_string().contains("number"));
}

#[test]
fn x04_d01_a_redis_with_an_unknown_issuer_is_refused_with_a_hint() {
    let (redis, port, _) = redis_with_tls();
    let backend = Backend::quick();
    let dispatcher = Dispatcher::start(&with_tls(&redis, port, "", &backend));
    dispatcher.process.await_log("name the certificate of its issuer in ca_file", 1);
    submit(&redis, "one", unix() + 600);
    assert!(backend.seen().is_empty());
}

/// The sentinel names an address, whose certificate must have that address.
#[test]
fn x04_d07_a_sentinel_and_its_primary_are_reached_by_tls() {
    let (options, roots) = tls_options();
    let (redis, port) = with_tls_port(&options, Redis::start_with);
    let watch = |options: &[&str]| Redis::sentinel(port, options);
    let (_sentinel, door) = with_tls_port(&options, watch);
    let backend = Backend::quick();
    let text = config(QUICK, "\"open\"", &redis, backend.address());
    let urls = format!("urls = [\"{}\"]\n", redis.url());
    let by_sentinel = format!(
        "urls = [\"rediss://localhost:{door}\"]\nsentinel = \"main\"\nca_file = {roots:?}\n"
    );
    let _dispatcher = Dispatcher::start(&text.replace(&urls, &by_sentinel));
    submit(&redis, "one", unix() + 600);
    assert_eq!(await_results(&redis, 1)[0]["status_code"], 200);
}
