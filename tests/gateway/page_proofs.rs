//! M03: the page `/dashboard` in a real browser, where it could fail: a hung gateway, names with
//! markup, very many flows and backends, a path prefix, and keys that no header can carry.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use crate::support::browser::Browser;
use crate::support::gateway::{ONE, config};
use crate::support::keys::Keys;
use crate::support::{Backend, Call, Gateway, HttpRequest, Nowhere, chat};

const TEAMS: &str = "flow_by = [\"header:x-team\"]\n";

/// All tables and charts are drawn in each of sixty frames; the longest one in milliseconds.
const LONGEST_FRAME: &str = "\
    new Promise((done) => { let longest = 0, last = performance.now(), left = 60; \
    const step = (now) => { longest = Math.max(longest, now - last); last = now; \
    document.querySelector('#filter').dispatchEvent(new Event('input')); \
    if (left -= 1) requestAnimationFrame(step); else done(longest); }; \
    requestAnimationFrame(step); })";

#[test]
fn m03_a_gateway_that_hangs_is_not_called_live() {
    let backend = Backend::quick();
    let gateway = Gateway::before("", &backend);
    let mut browser = Browser::start();
    browser.open(&format!("{}/dashboard", gateway.url()));
    let is = |live: &str| format!("document.querySelector('#link').dataset.live === '{live}'");
    browser.wait(&is("yes"));
    // The process keeps its connections and sends nothing.
    gateway.process.signal("STOP");
    browser.wait(&is("no"));
    let said = browser.text("#link");
    assert!(said.contains("no event for 5 s"), "{said}");
    gateway.process.signal("CONT");
    browser.wait(&is("yes"));
}

#[test]
fn m03_names_with_markup_are_shown_as_text() {
    let markup = "<img src=x onerror=\"window.harmed=1\">";
    let backend = Backend::held();
    let text = config(
        &format!("{ONE}[queue]\n{TEAMS}"),
        &[("one", backend.address()), ("<i>two</i>", Nowhere::reserve().address())],
    );
    let models = "[\"m\", \"<b onclick=alert(1)>m</b>\"]";
    let gateway = Gateway::launch(&text.replace("[\"m\"]", models));
    gateway.await_ready(1);
    let running = gateway.send(&chat("m").header("x-team", markup));
    backend.await_running(1);
    let ask = chat("m").header("x-team", markup).header("x-request-id", "<u>id</u>");
    let waiting = gateway.enqueue(&ask, 0);
    let mut browser = Browser::start();
    browser.open(&format!("{}/dashboard", gateway.url()));
    let shows = |table: &str, name: &str| {
        format!(
            "[...document.querySelectorAll('#{table} td.name')]\
             .some((cell) => cell.textContent === {name:?})"
        )
    };
    browser.wait(&shows("flows", markup));
    browser.wait(&shows("backends", "<i>two</i>"));
    browser.wait(&shows("models", "<b onclick=alert(1)>m</b>"));
    browser.wait("document.querySelector('#sentence').textContent.includes('<i>two</i> is down')");
    browser.eval(
        "document.querySelector('#request-id').value = '<u>nobody</u>', \
         document.querySelector('#lookup button').click()",
    );
    browser.wait("document.querySelector('#request').textContent !== ''");
    let made = "document.querySelectorAll('main img, main i:not(.bar i), main b[onclick]').length";
    assert_eq!(browser.eval(made), 0, "no name became an element");
    assert_eq!(browser.eval("typeof window.harmed"), "undefined");
    backend.open();
    drop((running, waiting));
}

/// Sends one request for each of these flows over one connection, and waits for the responses.
fn send_flows(gateway: SocketAddr, flows: std::ops::Range<usize>) {
    let count = flows.len();
    let request = |flow: usize| chat("m").header("x-team", &format!("team-{flow}")).bytes_kept();
    let mut call = Call::open(gateway, &[]);
    let mut writing = call.stream().try_clone().unwrap();
    let writer = thread::spawn(move || {
        for flow in flows {
            writing.write_all(&request(flow)).unwrap();
        }
    });
    for _ in 0..count {
        assert_ne!(call.answer().unwrap().status, 200, "the queue is full");
    }
    writer.join().unwrap();
}

#[test]
fn m03_ten_thousand_flows_and_two_hundred_backends_do_not_slow_the_page() {
    let backend = Backend::held();
    let nowhere: Vec<Nowhere> = (0..250).map(|_| Nowhere::reserve()).collect();
    let names: Vec<String> = (0..250).map(|number| format!("gpu-{number:03}")).collect();
    let lost = names.iter().zip(&nowhere).map(|(name, at)| (name.as_str(), at.address()));
    let backends: Vec<_> = std::iter::once(("one", backend.address())).chain(lost).collect();
    let queue = format!("[queue]\ntotal_capacity = 1\n{TEAMS}");
    let gateway = Gateway::launch(&config(&format!("{ONE}{queue}"), &backends));
    gateway.await_ready(1);
    let running = gateway.send(&chat("m").header("x-team", "busy"));
    backend.await_running(1);
    let waiting = gateway.enqueue(&chat("m").header("x-team", "busy"), 0);
    let address = gateway.address();
    let senders: Vec<_> = (0..4)
        .map(|part| thread::spawn(move || send_flows(address, part * 2500..(part + 1) * 2500)))
        .collect();
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    let mut browser = Browser::start();
    browser.open(&format!("{}/dashboard", gateway.url()));
    browser.wait("document.querySelectorAll('#backends tbody tr').length === 200");
    assert_eq!(browser.eval("document.querySelectorAll('#flows tbody tr').length"), 100);
    browser.wait("document.querySelector('#flows caption').textContent === 'and 9901 more'");
    assert_eq!(browser.text("#backends caption"), "and 51 more");
    let most = browser.eval(LONGEST_FRAME);
    assert!(most.as_f64().unwrap() < 30_000.0, "a frame took {most} ms");
    assert_eq!(browser.errors(), [""; 0]);
    backend.open();
    drop((running, waiting));
}

/// A reverse proxy that serves a gateway below `/tide`, one request for each connection.
fn prefixed(gateway: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(client) = client else { return };
            thread::spawn(move || pass(client, gateway));
        }
    });
    address
}

fn pass(mut client: TcpStream, gateway: SocketAddr) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && head.len() < 16 << 10 {
        match client.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let text = String::from_utf8(head).unwrap();
    let Some(rest) = text.strip_prefix("GET /tide/") else {
        // Whatever asks outside of the prefix would reach another program.
        let _ = client.write_all(b"HTTP/1.1 418 Outside\r\ncontent-length: 0\r\n\r\n");
        return;
    };
    let forwarded = format!("GET /{rest}").replacen("\r\n", "\r\nConnection: close\r\n", 1);
    let forwarded = forwarded.replace("Connection: keep-alive\r\n", "");
    let mut server = TcpStream::connect(gateway).unwrap();
    server.write_all(forwarded.as_bytes()).unwrap();
    // Either side may leave first.
    let _ = std::io::copy(&mut server, &mut client);
    let _ = client.shutdown(Shutdown::Both);
}

#[test]
fn m03_the_page_works_behind_a_prefix_with_a_key_and_refuses_what_is_none() {
    let (backend, keys) = (Backend::quick(), Keys::new());
    let admin = keys.make(&["--admin", "read", "--name", "operator"]);
    let sections = format!("{}[[tenants]]\nname = \"alpha\"\n", keys.section());
    let gateway = Gateway::launch(&config(&sections, &[("one", backend.address())]));
    let front = prefixed(gateway.address());
    let mut browser = Browser::start();
    browser.open(&format!("http://{front}/tide/dashboard"));
    browser.wait("!document.querySelector('#login').hidden");
    let enter = |browser: &mut Browser, key: &str| {
        browser.eval(&format!(
            "document.querySelector('#token').value = {key:?}, \
             document.querySelector('#login button').click()"
        ));
    };
    // No header can carry such a key, so the browser itself refuses to send it.
    enter(&mut browser, "schlüssel-ключ");
    browser.wait("document.querySelector('#refused').textContent.includes('This is no key')");
    assert_eq!(browser.eval("document.querySelector('#login').hidden"), false);
    assert_eq!(browser.eval("sessionStorage.token"), serde_json::Value::Null);
    enter(&mut browser, &admin);
    browser.wait("document.querySelector('#sentence').textContent.startsWith('All is well')");
    browser.wait("document.querySelector('#link').textContent === 'live'");
}

/// Sixteen streams of one address, which are never read, leave room for those of others.
#[test]
fn m03_one_address_has_a_part_of_the_viewers() {
    let backend = Backend::quick();
    let gateway = Gateway::before("", &backend);
    let view = || gateway.send(&HttpRequest::get("/status/stream"));
    let mut viewers: Vec<Call> = (0..16).map(|_| view()).collect();
    for viewer in &mut viewers {
        assert_eq!(viewer.head().status, 200);
    }
    // A stream that begins has no end, so only its head is read.
    assert_eq!(view().head().status, 503);
    viewers.pop();
    crate::support::eventually("a free place", || match view().head().status {
        200 => Ok(()),
        other => Err(other.to_string()),
    });
}
