//! X05: limits of tenants hold for bursts, early disconnects and reloads.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use serde_json::json;
use socket2::{Domain, Socket, Type};

use crate::support::gateway::config;
use crate::support::keys::Keys;
use crate::support::wait::BOUND;
use crate::support::{Backend, Call, Gateway, HttpRequest, chat, eventually, fresh_file};

/// A configuration in which the tenant `alpha` has these settings.
fn text(keys: &Keys, settings: &str, backend: &Backend) -> String {
    let sections = format!(
        "{}[admin]\nwithout_key = \"all\"\n[log]\nformat = \"json\"\n\
         [[tenants]]\nname = \"beta\"\n[[tenants]]\nname = \"alpha\"\n{settings}",
        keys.section()
    );
    config(&sections, &[("one", backend.address())])
}

fn code(gateway: &Gateway, ask: &HttpRequest) -> (u16, String) {
    let response = gateway.ask(ask);
    (response.status, response.code())
}

#[test]
fn x05_a_request_over_the_limit_is_refused_before_its_body_comes() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "a");
    let gateway = Gateway::start(&text(&keys, "requests_per_minute = 1\n", &backend));
    assert_eq!(gateway.ask(&chat("m").key(&key)).status, 200);
    // The body is announced and never sent.
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         authorization: Bearer {key}\r\ncontent-length: 1000000\r\n\r\n"
    );
    let refused = Call::open(gateway.address(), head.as_bytes()).head();
    assert_eq!(refused.status, 429);
    assert!(refused.headers.iter().any(|(name, _)| name == "retry-after"));
}

#[test]
fn x05_a_burst_does_not_pass_a_quota() {
    let (keys, backend) = (Keys::new(), Backend::held());
    let key = keys.tenant("alpha", "a");
    let settings = "tokens_per_day = 3000\non_quota = \"refuse\"\n";
    let gateway = Gateway::start(&text(&keys, settings, &backend));
    let ask = chat("m").with("max_tokens", 1000).key(&key);
    let running: Vec<_> = (0..3).map(|_| gateway.send(&ask)).collect();
    backend.await_running(3);
    assert_eq!(code(&gateway, &ask), (429, "insufficient_quota".into()));
    backend.open();
    running.into_iter().for_each(|call| assert_eq!(call.finish().status, 200));
    // They used six tokens each, and the rest is there again.
    gateway.await_idle();
    assert_eq!(gateway.ask(&ask).status, 200);
}

#[test]
fn x05_a_client_that_leaves_before_the_first_token_has_used_its_prompt() {
    let (keys, backend) = (Keys::new(), Backend::held());
    let key = keys.tenant("alpha", "a");
    let settings = "tokens_per_day = 900\non_quota = \"refuse\"\n";
    let gateway = Gateway::start(&text(&keys, settings, &backend));
    let long = json!([{"role": "user", "content": "word ".repeat(1000)}]);
    let call = gateway.send(&chat("m").with("messages", long).with("max_tokens", 5).key(&key));
    backend.await_running(1);
    drop(call);
    backend.await_left(1);
    gateway.await_idle();
    backend.open();
    assert_eq!(code(&gateway, &chat("m").key(&key)), (429, "insufficient_quota".into()));
}

#[test]
fn x05_a_tenant_that_is_removed_and_comes_back_has_no_new_quota() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "a");
    let settings = "tokens_per_day = 5\non_quota = \"refuse\"\n";
    let with = text(&keys, settings, &backend);
    let gateway = Gateway::start(&with);
    let ask = chat("m").key(&key);
    assert_eq!(gateway.ask(&ask).status, 200);
    gateway.await_idle();
    assert_eq!(gateway.ask(&ask).status, 429);
    let without = with.replace("name = \"alpha\"", "name = \"gamma\"");
    for (text, wanted) in [(&without, 401), (&with, 429)] {
        gateway.rewrite(text);
        eventually("reloaded", || match gateway.ask(&ask).status {
            401 if wanted != 401 => Err("not known yet".to_owned()),
            429 if wanted != 429 => Err("still known".to_owned()),
            status => {
                assert_eq!(status, wanted);
                Ok(())
            }
        });
    }
}

#[test]
fn x05_the_log_names_the_tenant_of_a_call_of_the_batch_api() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "laptop");
    let batch = format!("[batch]\nfolder = {:?}\n", fresh_file().with_file_name("batches"));
    let gateway = Gateway::start(&format!("{batch}{}", text(&keys, "", &backend)));
    let list = HttpRequest::get("/v1/batches").key(&key).header("x-request-id", "listed");
    assert_eq!(gateway.ask(&list).status, 200);
    let line = gateway.access_of("listed");
    assert_eq!((&line["tenant"], &line["key"]), (&json!("alpha"), &json!("laptop")));
    let counted = gateway.get("/metrics").text();
    assert!(!counted.contains("tidegate_tenant_requests_total{tenant=\"alpha\""), "no usage");
}

#[test]
fn x05_a_key_file_that_is_too_large_is_no_part_of_itself() {
    let keys = Keys::new();
    keys.tenant("alpha", "a");
    let mut text = fs::read_to_string(keys.file()).unwrap();
    text += &format!("# {}\n", "x".repeat(17 << 20));
    fs::write(keys.file(), text).unwrap();
    let file = fresh_file();
    fs::write(&file, format!("{}[[tenants]]\nname = \"alpha\"\n", keys.section())).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = check.arg("check").arg(&file).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told);
    assert!(!output.status.success() && told.contains("larger than 16 MiB"), "{told}");
}

/// An upload that has sent its head and no more, from this address.
fn slow_upload(gateway: &Gateway, from: [u8; 4]) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&gateway.address().into()).unwrap();
    let mut stream: TcpStream = socket.into();
    let head = "POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\
                content-type: multipart/form-data; boundary=XYZ\r\n\r\n--XYZ\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    stream
}

#[test]
fn x03_slow_uploads_of_one_address_leave_places_for_others() {
    let backend = Backend::quick();
    let batch = format!("[batch]\nfolder = {:?}\n", fresh_file().with_file_name("batches"));
    let gateway = Gateway::before(&batch, &backend);
    let slow: Vec<_> = (0..16).map(|_| slow_upload(&gateway, [127, 0, 0, 1])).collect();
    // Four of them are refused at once, so that another address finds places.
    let refused = |stream: &TcpStream| {
        let mut first = [0; 12];
        stream.set_nonblocking(true).unwrap();
        stream.peek(&mut first).is_ok() && first == *b"HTTP/1.1 503"
    };
    eventually("refused", || {
        let count = slow.iter().filter(|stream| refused(stream)).count();
        if count == 4 { Ok(()) } else { Err(format!("{count} refused")) }
    });
    let body = "--XYZ\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--XYZ\r\n\
        Content-Disposition: form-data; name=\"file\"; filename=\"in\"\r\n\r\n{}\r\n--XYZ--\r\n";
    let mut other = slow_upload(&gateway, [127, 0, 0, 2]);
    let rest = format!("{}{}", &body["--XYZ\r\n".len()..], " ".repeat(100_000 - body.len()));
    other.write_all(rest.as_bytes()).unwrap();
    let mut first = [0; 12];
    other.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
}
