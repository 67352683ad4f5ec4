//! The requests of a reflector, as an API server sees them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::super::api_server::ApiServer;
use super::super::driver::{Driver, Followed, WATCH_LIMIT};
use super::super::objects::Pod;
use super::super::resource::{PODS, Selector};
use crate::config::settings::Kubernetes;

const LIST: &str = r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#;
const ADDED: &str = r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}"#;

/// The first line of a request.
fn asked(stream: &TcpStream) -> Option<String> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next()?;
    lines.find(|line| line.is_empty())?;
    Some(first)
}

/// Answers lists, and begins watches that say nothing after one event.
fn serve(listener: &TcpListener, seen: &mpsc::UnboundedSender<String>) {
    let mut open = Vec::new();
    for mut stream in listener.incoming().map_while(Result::ok) {
        let Some(line) = asked(&stream) else { continue };
        let is_watch = line.contains("watch=true");
        let body = if is_watch { ADDED } else { LIST };
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
        let sent = stream.write_all(format!("{head}{body}\n").as_bytes());
        if sent.is_err() || seen.send(line).is_err() {
            return;
        }
        open.extend(is_watch.then_some(stream));
    }
}

/// A connection that died silently would hide all changes for as long as a watch may last.
#[tokio::test]
async fn x02_a_watch_is_short_and_a_silent_one_is_begun_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let settings = Kubernetes {
        url: Some(format!("http://{}", listener.local_addr().unwrap())),
        token_file: None,
        ca_file: None,
        namespace: Some("models".into()),
        targets: Vec::new(),
    };
    let (tell, mut seen) = mpsc::unbounded_channel();
    thread::spawn(move || serve(&listener, &tell));
    let server = Arc::new(ApiServer::new(&settings).unwrap());
    let changed = Arc::new(Notify::new());
    let driver = Driver { server, changed: Arc::clone(&changed) };
    let pods: Followed<Pod> = driver.start(PODS, Selector::All);
    while pods.listing().objects.as_ref().is_none_or(|pods| pods.is_empty()) {
        changed.notified().await;
    }
    let mut watch = String::new();
    while !watch.contains("watch=true") {
        watch = seen.recv().await.unwrap();
    }
    assert!(watch.contains("timeoutSeconds=60&resourceVersion=5"), "{watch}");
    tokio::time::pause();
    // The clock runs ahead of the sockets, so it tells no upper limit.
    let began = Instant::now();
    let again = seen.recv().await.unwrap();
    assert!(again.contains("watch=true") && again.contains("resourceVersion=7"), "{again}");
    assert!(began.elapsed() >= Duration::from_secs(60), "{:?}", began.elapsed());
    let limit = format!("noticed after up to {} seconds", WATCH_LIMIT.as_secs());
    assert!(include_str!("../../../../../docs/KUBERNETES.md").contains(&limit), "{limit}");
}
