//! Scripted servers.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A server that answers each request with the next of its replies, and repeats the last one. It
/// reads requests of HTTP and of Redis.
#[derive(Debug)]
pub(super) struct Fake {
    pub(super) port: u16,
    replies: Arc<Mutex<Vec<Reply>>>,
    /// The requests that it received.
    pub(super) received: Arc<Mutex<Vec<String>>>,
    pub(super) connections: Arc<AtomicUsize>,
    tasks: JoinSet<()>,
}

/// A program of the machine, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Process(Child);

/// The reaction to a request.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Text(String),
    /// No reply, forever.
    Silent,
    /// The connection is closed.
    Closed,
}

/// An HTTP response.
pub(super) fn page(status: u16, body: &str) -> Reply {
    let length = body.len();
    Reply::Text(format!("HTTP/1.1 {status} Said\r\nContent-Length: {length}\r\n\r\n{body}"))
}

// === impl Process ===

impl Process {
    /// Starts a program that `tools/setup.sh` installs.
    pub(super) fn start(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn();
        Self(child.unwrap_or_else(|error| panic!("{program}: {error}: run tools/setup.sh")))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A free port.
pub(super) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

// === impl Fake ===

impl Fake {
    pub(super) async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (replies, received) = (Arc::new(Mutex::new(replies)), Arc::new(Mutex::new(Vec::new())));
        let connections = Arc::new(AtomicUsize::new(0));
        let (scripted, log, count) = (replies.clone(), received.clone(), connections.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                open.spawn(serve(stream, scripted.clone(), log.clone()));
            }
        });
        Self { port, replies, received, connections, tasks }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn set(&self, reply: Reply) {
        *self.replies.lock().unwrap() = vec![reply];
    }

    /// Refuses connections from now on.
    pub(super) async fn stop(&mut self) {
        self.tasks.shutdown().await;
    }
}

async fn serve(
    stream: TcpStream,
    replies: Arc<Mutex<Vec<Reply>>>,
    received: Arc<Mutex<Vec<String>>>,
) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        received.lock().unwrap().push(request);
        let reply = {
            let mut replies = replies.lock().unwrap();
            if replies.len() > 1 { replies.remove(0) } else { replies[0].clone() }
        };
        match reply {
            Reply::Text(text) => _ = stream.write_all(text.as_bytes()).await,
            Reply::Silent => std::future::pending().await,
            Reply::Closed => return,
        }
    }
}

/// Reads one request: the first line of an HTTP request, or the words of a Redis command.
async fn read(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut first = String::new();
    stream.read_line(&mut first).await.ok().filter(|&count| count > 0)?;
    let Some(count) = first.strip_prefix('*') else {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).await.ok().filter(|&count| count > 0)?;
        }
        return Some(first.trim_end().to_owned());
    };
    let mut words = Vec::new();
    for _ in 0..count.trim().parse::<usize>().unwrap() {
        let mut length = String::new();
        stream.read_line(&mut length).await.ok()?;
        let length: usize = length.trim().strip_prefix('$')?.parse().ok()?;
        let mut word = vec![0; length + 2];
        stream.read_exact(&mut word).await.ok()?;
        words.push(String::from_utf8(word[..length].to_vec()).unwrap());
    }
    Some(words.join(" "))
}
