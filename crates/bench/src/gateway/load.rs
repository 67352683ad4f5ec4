//! Clients over raw TCP: one connection each, one request at a time.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::str;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::dialing::{ClientStream, Dialing};
use super::http1::{Head, Inbox};
use super::origin::{Origin, STREAMED};
use super::process::Process;

/// The size of a request's body where nothing else is said.
const BODY: usize = 1024;
/// A round waits for its first request for no longer than this.
const FIRST_WITHIN: Duration = Duration::from_secs(30);
/// What prompts are made of.
const LINE: &[u8] = b"The tide rises, the tide falls, and the gate stands between. ";

/// The bytes of a request.
#[derive(Clone, Debug)]
pub(crate) struct Request(Rc<[u8]>);

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: ClientStream,
    inbox: Inbox,
}

/// A response, and when it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Until the head was here.
    pub(crate) first: Duration,
    /// Until the end was here.
    pub(crate) total: Duration,
}

/// What a proxy did in a stretch of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    /// Answers, each event of a stream counted as one.
    pub(crate) sent: u64,
    pub(crate) cpu_micros: f64,
    pub(crate) seconds: f64,
}

/// Clients that send again as soon as they have a response.
#[derive(Clone, Debug)]
pub(crate) struct ClosedLoop {
    pub(crate) clients: usize,
    pub(crate) request: Request,
    pub(crate) dialing: Dialing,
    /// Before the count begins, and while it goes on.
    pub(crate) warm: Duration,
    pub(crate) counted: Duration,
}

/// Clients that send the same number of requests each, all clients at once.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    clients: usize,
    /// The clients take them in turn, over all rounds: after any number of requests each has been
    /// sent as often as the others, or once more.
    requests: Rc<[Request]>,
    sent: Rc<Cell<usize>>,
}

/// What a proxy did for a crowd.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    /// Milliseconds from each request to the end of its response.
    pub(crate) millis: Vec<f64>,
    pub(crate) cpu_micros: f64,
    pub(crate) seconds: f64,
}

// === impl Request ===

impl Request {
    /// A chat of a kilobyte, with these headers beside the usual ones.
    pub(crate) fn chat(streamed: bool, headers: &str) -> Self {
        Self::chat_of(BODY, streamed, headers)
    }

    /// A chat of so many bytes.
    pub(crate) fn chat_of(size: usize, streamed: bool, headers: &str) -> Self {
        let begin = if streamed { STREAMED } else { b"{\"stream\":false,".as_slice() };
        let mut body = begin.to_vec();
        body.extend(b"\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"");
        let end = b"\"}]}";
        let prompt = size.saturating_sub(body.len() + end.len());
        body.extend(LINE.iter().cycle().take(prompt));
        body.extend(end);
        let headers = format!("content-type: application/json\r\n{headers}");
        Self::post("/v1/chat/completions", &headers, &body)
    }

    /// This body, with these headers beside the usual ones.
    pub(crate) fn post(path: &str, headers: &str, body: &[u8]) -> Self {
        let length = body.len();
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nuser-agent: bench\r\n\
             accept: */*\r\ncontent-length: {length}\r\n{headers}\r\n"
        )
        .into_bytes();
        request.extend(body);
        Self(request.into())
    }

    /// What stands behind its head.
    pub(crate) fn body(&self) -> Vec<u8> {
        let head = self.0.windows(4).position(|four| four == b"\r\n\r\n");
        self.0[head.map_or(0, |at| at + 4)..].to_vec()
    }

    pub(crate) fn get(path: &str) -> Self {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        Self(request.into_bytes().into())
    }
}

// === impl Client ===

impl Client {
    pub(crate) async fn connect(to: SocketAddr) -> Result<Self> {
        Self::dial(&Dialing::default(), to).await
    }

    async fn dial(dialing: &Dialing, to: SocketAddr) -> Result<Self> {
        Ok(Self { stream: dialing.connect(to).await?, inbox: Inbox::default() })
    }

    pub(crate) async fn send(&mut self, request: &Request) -> Result<()> {
        self.stream.write_all(&request.0).await?;
        // TLS keeps what the socket did not take.
        Ok(self.stream.flush().await?)
    }

    pub(crate) async fn ask(&mut self, request: &Request) -> Result<Answer> {
        let began = Instant::now();
        self.send(request).await?;
        self.receive(began).await
    }

    /// Reads the response to a request that was sent; its times count from `began`.
    pub(crate) async fn receive(&mut self, began: Instant) -> Result<Answer> {
        let head = self.inbox.head(&mut self.stream).await?.context("closed without an answer")?;
        let first = began.elapsed();
        self.rest(head, began, first).await
    }

    /// Reads on to the end of the answer.
    async fn rest(&mut self, head: Head, began: Instant, first: Duration) -> Result<Answer> {
        self.inbox.whole(head, &mut self.stream).await?;
        let total = began.elapsed();
        let status = self.inbox.bytes().get(9..12).and_then(|three| str::from_utf8(three).ok());
        let status = status.and_then(|three| three.parse().ok()).context("no status")?;
        self.inbox.forget();
        Ok(Answer { status, first, total })
    }

    /// Like [`Client::ask`], but what counts as first is the first byte of the body.
    pub(crate) async fn watch(&mut self, request: &Request) -> Result<Answer> {
        let began = Instant::now();
        self.send(request).await?;
        let head = self.inbox.head(&mut self.stream).await?.context("closed without an answer")?;
        while self.inbox.bytes().len() <= head.length {
            self.inbox.more(&mut self.stream).await?.context("closed without a body")?;
        }
        let first = began.elapsed();
        self.rest(head, began, first).await
    }

    /// Asks for a stream of so many events; each comes when this client has the one before.
    pub(crate) async fn follow(
        &mut self,
        request: &Request,
        origin: &Origin,
        events: usize,
    ) -> Result<()> {
        self.send(request).await?;
        // The head may come with the first event.
        origin.step();
        let head = self.inbox.head(&mut self.stream).await?.context("closed without an answer")?;
        let mut known = head.length;
        for next in 1..=events {
            while self.inbox.bytes().len() == known {
                self.inbox.more(&mut self.stream).await?.context("closed without an event")?;
            }
            known = self.inbox.bytes().len();
            if next < events {
                origin.step();
            }
        }
        self.inbox.whole(head, &mut self.stream).await?;
        self.inbox.forget();
        Ok(())
    }

    /// The body of the answer, as text.
    pub(crate) async fn text(&mut self, request: &Request) -> Result<String> {
        self.send(request).await?;
        let head = self.inbox.head(&mut self.stream).await?.context("closed without an answer")?;
        self.inbox.whole(head, &mut self.stream).await?;
        let text = String::from_utf8_lossy(&self.inbox.bytes()[head.length..]).into_owned();
        self.inbox.forget();
        Ok(text)
    }

    /// Like [`Client::ask`], but a status other than 200 is an error.
    pub(crate) async fn ask_well(&mut self, request: &Request) -> Result<Answer> {
        let answer = self.ask(request).await?;
        if answer.status != 200 {
            bail!("the answer is {}, not 200", answer.status);
        }
        Ok(answer)
    }
}

// === impl ClosedLoop ===

impl ClosedLoop {
    /// What `proxy` did in front of `origin` while it was counted. Runs inside a `LocalSet`.
    pub(crate) async fn run(&self, proxy: &Process, origin: &Origin) -> Result<Stretch> {
        let over = Rc::new(Cell::new(false));
        let mut clients = JoinSet::new();
        for _ in 0..self.clients {
            clients.spawn_local(again(proxy.address, self.clone(), Rc::clone(&over)));
        }
        tokio::time::sleep(self.warm).await;
        let (began, cpu, sent) = (Instant::now(), proxy.cpu_nanos()?, origin.sent());
        tokio::time::sleep(self.counted).await;
        // On a busy machine the first request takes longer; without one there is no figure.
        while origin.sent() == sent && began.elapsed() < FIRST_WITHIN {
            tokio::time::sleep(self.counted).await;
        }
        let stretch = Stretch {
            sent: origin.sent() - sent,
            cpu_micros: (proxy.cpu_nanos()? - cpu) as f64 / 1e3,
            seconds: began.elapsed().as_secs_f64(),
        };
        over.set(true);
        while let Some(ended) = clients.join_next().await {
            ended?.with_context(|| format!("a client of {}", proxy.name))?;
        }
        Ok(stretch)
    }
}

// === impl Crowd ===

impl Crowd {
    pub(crate) fn new(clients: usize, requests: Vec<Request>) -> Self {
        Self { clients, requests: requests.into(), sent: Rc::default() }
    }

    /// The same crowd for another proxy, which begins with the first request.
    pub(crate) fn afresh(self) -> Self {
        Self { sent: Rc::default(), ..self }
    }

    fn next(&self) -> &Request {
        let turn = self.sent.replace(self.sent.get() + 1);
        &self.requests[turn % self.requests.len()]
    }

    /// What `proxy` did for so many requests of each client. Runs inside a `LocalSet`.
    pub(crate) async fn ask(&self, proxy: &Process, each: usize) -> Result<Served> {
        let clients = self.connect(proxy).await?;
        let (began, cpu) = (Instant::now(), proxy.cpu_nanos()?);
        let asked = self.ask_of(clients, each).await;
        let millis = asked.with_context(|| format!("a client of {}", proxy.name))?;
        let seconds = began.elapsed().as_secs_f64();
        Ok(Served { millis, cpu_micros: (proxy.cpu_nanos()? - cpu) as f64 / 1e3, seconds })
    }

    /// Milliseconds of so many requests of each of these clients.
    pub(crate) async fn ask_of(&self, clients: Vec<Client>, each: usize) -> Result<Vec<f64>> {
        let mut millis = Vec::with_capacity(clients.len() * each);
        let mut asking = JoinSet::new();
        for client in clients {
            asking.spawn_local(self.clone().send(client, each));
        }
        while let Some(ended) = asking.join_next().await {
            millis.extend(ended??);
        }
        Ok(millis)
    }

    /// Clients that have sent a request each. An idle connection would not last from one round to
    /// the next.
    pub(crate) async fn connect(&self, proxy: &Process) -> Result<Vec<Client>> {
        let mut clients = Vec::with_capacity(self.clients);
        for _ in 0..self.clients {
            let mut client = Client::connect(proxy.address).await?;
            client.ask_well(self.next()).await?;
            clients.push(client);
        }
        Ok(clients)
    }

    async fn send(self, mut client: Client, each: usize) -> Result<Vec<f64>> {
        let mut millis = Vec::with_capacity(each);
        for _ in 0..each {
            let answer = client.ask_well(self.next()).await?;
            millis.push(answer.total.as_secs_f64() * 1e3);
        }
        Ok(millis)
    }
}

// === impl Served ===

impl Served {
    pub(crate) fn rate(&self) -> f64 {
        self.millis.len() as f64 / self.seconds
    }

    pub(crate) fn cpu_micros_each(&self) -> f64 {
        self.cpu_micros / self.millis.len() as f64
    }
}

/// Asks until it is over.
async fn again(address: SocketAddr, load: ClosedLoop, over: Rc<Cell<bool>>) -> Result<()> {
    let mut client = Client::dial(&load.dialing, address).await?;
    while !over.get() {
        client.ask_well(&load.request).await?;
        if load.dialing.afresh {
            client = Client::dial(&load.dialing, address).await?;
        }
    }
    Ok(())
}
