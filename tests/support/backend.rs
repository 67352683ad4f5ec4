//! A scripted model server.
//!
//! A script gives the response to each request. Responses can be held until the test releases them,
//! in order of arrival. The server counts its concurrent requests and records every request. It
//! answers probes (health, models, metrics) by itself and does not count them.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use super::call::value;
use super::scripted_response::{ScriptedResponse, Step};
use super::wait::{BOUND, Stopwatch, eventually};

/// How often a held response checks whether its client is still connected.
const LOOK: Duration = Duration::from_millis(20);

/// The same for work, which lasts up to so much longer.
const WORK_LOOK: Duration = Duration::from_millis(5);

/// A model server in this process.
#[derive(Debug)]
pub(crate) struct Backend {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// An address on which no program listens while this value lives.
#[derive(Debug)]
pub(crate) struct Nowhere(Socket);

/// A request as the model server received it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The number of requests before it, and the time since the start of the server.
    pub(crate) number: usize,
    pub(crate) at: Duration,
}

type Script = dyn Fn(&Seen) -> ScriptedResponse + Send + Sync;

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    script: Box<Script>,
    began: Stopwatch,
}

#[derive(Debug, Default)]
struct State {
    stopped: bool,
    connections: Vec<TcpStream>,
    seen: Vec<Seen>,
    running: usize,
    most: usize,
    /// Requests whose client disconnected before the end of the response.
    left: usize,
    /// The held responses, and how many of them may go.
    held: VecDeque<usize>,
    permits: usize,
    tickets: usize,
    sick: bool,
    forbids: bool,
    spoilt: bool,
    /// Bytes that endless responses have sent.
    endless: usize,
    models: Vec<String>,
    /// The model that it has loaded, if it loads models on demand, and how often that was asked.
    loaded: Option<Vec<String>>,
    loaded_asked: usize,
    /// The places that its metrics report, and how often they were read; without places it has
    /// no metrics.
    places: Option<usize>,
    /// The requests of others that its metrics report as waiting.
    waiting: usize,
    metrics_read: usize,
}

/// How a response ended.
enum Ended {
    Whole,
    Cut,
    Left,
}

// === impl State ===

impl State {
    fn metrics(&self, places: usize) -> String {
        let Self { running, waiting, .. } = self;
        format!(
            "vllm:num_requests_running {running}\nvllm:num_requests_waiting {waiting}\n\
             vllm:kv_cache_usage_perc 0\nvllm:max_num_seqs {places}\n"
        )
    }
}

// === impl Nowhere ===

impl Nowhere {
    pub(crate) fn reserve() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        Self(socket)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap().as_socket().unwrap()
    }
}

// === impl Seen ===

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        value(&self.headers, name)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The tag that [`super::HttpRequest::tag`] set.
    pub(crate) fn tag(&self) -> String {
        self.json()["mark"].as_str().unwrap_or_default().to_owned()
    }

    fn is_probe(&self) -> bool {
        let probes = ["/", "/health", "/metrics", "/v1/models", "/api/tags", "/api/version"];
        // Clients may ask for these, too.
        let loaded = ["/api/ps", "/running"];
        let path = self.path.as_str();
        let is_own = loaded.contains(&path) && self.header("user-agent") == Some("tidegate");
        self.method == "GET" && (probes.contains(&path) || is_own)
    }

    fn read(from: &mut BufReader<TcpStream>) -> io::Result<Self> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if from.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if line == "\r\n" {
                break;
            }
            lines.push(line.trim_end().to_owned());
        }
        let mut first = lines.first().map_or("", String::as_str).split(' ');
        let mut word = || first.next().unwrap_or_default().to_owned();
        let (method, path) = (word(), word());
        let field = |line: &String| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let headers: Vec<_> = lines.iter().skip(1).filter_map(field).collect();
        let body = body(from, &headers)?;
        Ok(Self { method, path, headers, body, number: 0, at: Duration::ZERO })
    }
}

fn body(from: &mut BufReader<TcpStream>, headers: &[(String, String)]) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if value(headers, "transfer-encoding").is_some() {
        loop {
            let mut line = String::new();
            from.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
            let mut chunk = vec![0; size + 2];
            from.read_exact(&mut chunk)?;
            body.extend(&chunk[..size]);
            if size == 0 {
                return Ok(body);
            }
        }
    }
    let length = value(headers, "content-length").and_then(|length| length.parse().ok());
    body.resize(length.unwrap_or(0), 0);
    from.read_exact(&mut body)?;
    Ok(body)
}

// === impl Backend ===

impl Backend {
    /// Starts a server with this script that lists the model `m`.
    pub(crate) fn start(
        script: impl Fn(&Seen) -> ScriptedResponse + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        Self::on(listener, script)
    }

    /// Starts a server at a given address.
    pub(crate) fn start_at(
        address: SocketAddr,
        script: impl Fn(&Seen) -> ScriptedResponse + Send + Sync + 'static,
    ) -> Self {
        // An outgoing connection of another process may hold the port for a moment.
        let bind = || TcpListener::bind(address).map_err(|error| error.to_string());
        Self::on(eventually("bound", bind), script)
    }

    fn on(
        listener: TcpListener,
        script: impl Fn(&Seen) -> ScriptedResponse + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let state = State { models: vec!["m".into()], ..State::default() };
        let (state, script) = (Mutex::new(state), Box::new(script));
        let shared =
            Arc::new(Shared { state, changed: Condvar::new(), script, began: Stopwatch::start() });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Self { address, shared }
    }

    /// A server that finishes every chat at once.
    pub(crate) fn quick() -> Self {
        Self::start(|_| ScriptedResponse::ok())
    }

    /// A server that holds every chat until the test releases it.
    pub(crate) fn held() -> Self {
        Self::start(|_| ScriptedResponse::ok().held())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the models that probes see.
    pub(crate) fn lists(self, models: &[&str]) -> Self {
        self.shared.state().models = models.iter().map(|model| (*model).to_owned()).collect();
        self
    }

    /// Sets whether probes see a page in place of a list of models.
    pub(crate) fn set_list_spoilt(&self, spoilt: bool) {
        self.shared.state().spoilt = spoilt;
    }

    /// Lets it load one model at a time, as the requests need it.
    pub(crate) fn loads_on_demand(self) -> Self {
        self.shared.state().loaded = Some(Vec::new());
        self
    }

    /// Lets it report the metrics of a vLLM with so many places.
    pub(crate) fn reports_places(self, places: usize) -> Self {
        self.shared.state().places = Some(places);
        self
    }

    /// Lets these metrics tell of requests that wait.
    pub(crate) fn reports_waiting(&self, count: usize) {
        self.shared.state().waiting = count;
    }

    /// Waits until the gateway knows its metrics.
    pub(crate) fn await_metrics_read(&self) {
        let read = self.shared.state().metrics_read;
        // The gateway reads again when it has taken the last reading.
        eventually("metrics read", || {
            let now = self.shared.state().metrics_read;
            if now >= read + 2 { Ok(()) } else { Err(now.to_string()) }
        });
    }

    /// Waits until the gateway knows which model it has loaded.
    pub(crate) fn await_loaded_read(&self) {
        let asked = self.shared.state().loaded_asked;
        // The gateway asks again when it has read the last response.
        eventually("asked for its loaded model", || {
            let now = self.shared.state().loaded_asked;
            if now >= asked + 2 { Ok(()) } else { Err(now.to_string()) }
        });
    }

    /// Sets whether health probes succeed.
    pub(crate) fn set_healthy(&self, healthy: bool) {
        self.shared.state().sick = !healthy;
    }

    /// Sets whether it answers 403 to probes.
    pub(crate) fn set_forbidding(&self, forbids: bool) {
        self.shared.state().forbids = forbids;
    }

    /// Releases this many held responses, now or when they arrive.
    pub(crate) fn release(&self, count: usize) {
        let mut state = self.shared.state();
        state.permits = state.permits.saturating_add(count);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Holds no response any more.
    pub(crate) fn open(&self) {
        self.release(usize::MAX / 2);
    }

    pub(crate) fn running(&self) -> usize {
        self.shared.state().running
    }

    /// The most concurrent requests so far.
    pub(crate) fn most(&self) -> usize {
        self.shared.state().most
    }

    /// Bytes that endless responses have sent so far.
    pub(crate) fn endless(&self) -> usize {
        self.shared.state().endless
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.state().seen.clone()
    }

    pub(crate) fn tags(&self) -> Vec<String> {
        self.seen().iter().map(Seen::tag).collect()
    }

    /// Waits until it has this many concurrent requests.
    pub(crate) fn await_running(&self, count: usize) {
        self.wait("running", count, |state| state.running);
    }

    /// Waits until it holds this many responses.
    pub(crate) fn await_held(&self, count: usize) {
        self.wait("held", count, |state| state.held.len());
    }

    /// Waits until it has received this many requests.
    pub(crate) fn await_seen(&self, count: usize) {
        self.wait("seen", count, |state| state.seen.len());
    }

    /// Waits until this many clients have disconnected before the end of their response.
    pub(crate) fn await_left(&self, count: usize) {
        self.wait("left", count, |state| state.left);
    }

    fn wait(&self, what: &str, count: usize, of: impl Fn(&State) -> usize) {
        let state = self.shared.state();
        let waited = self.shared.changed.wait_timeout_while(state, BOUND, |s| of(s) != count);
        let (state, timeout) = waited.unwrap();
        assert!(!timeout.timed_out(), "never {count} {what}, but {}", of(&state));
    }

    /// Stops: refuses new connections and cuts the open ones.
    pub(crate) fn stop(&self) {
        let mut state = self.shared.state();
        state.stopped = true;
        for connection in state.connections.drain(..) {
            // It may be closed already.
            let _ = connection.shutdown(Shutdown::Both);
        }
        drop(state);
        self.shared.changed.notify_all();
        // Wakes the accepting thread, so that it drops the listener.
        drop(TcpStream::connect(self.address));
        let refused = || match TcpStream::connect(self.address) {
            Ok(_) => Err("accepted".into()),
            Err(error) => Ok(error),
        };
        eventually("refused", refused);
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.stopped = true;
        drop(state);
        self.shared.changed.notify_all();
        drop(TcpStream::connect(self.address));
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let mut state = shared.state();
        if state.stopped {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(kept) = stream.try_clone() else { continue };
        state.connections.push(kept);
        drop(state);
        let shared = Arc::clone(shared);
        let serving = move || shared.serve(stream);
        thread::Builder::new().stack_size(128 << 10).spawn(serving).unwrap();
    }
}

// === impl Shared ===

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: TcpStream) {
        // The connection may be gone already.
        let _ = stream.set_nodelay(true);
        let _ = stream.set_write_timeout(Some(Duration::from_secs(10)));
        let mut from = BufReader::new(stream);
        while let Ok(seen) = Seen::read(&mut from) {
            let go_on = if seen.is_probe() {
                from.get_mut().write_all(self.probe(&seen.path).as_bytes()).is_ok()
            } else {
                self.answer(seen, from.get_mut())
            };
            if !go_on {
                break;
            }
        }
        let _ = from.get_ref().shutdown(Shutdown::Both);
    }

    fn probe(&self, path: &str) -> String {
        let mut state = self.state();
        state.loaded_asked += usize::from(path == "/api/ps");
        state.metrics_read += usize::from(path == "/metrics");
        let openai = |name: &String| json!({"id": name, "object": "model", "owned_by": "test"});
        let ollama = |name: &String| json!({"name": name, "model": name});
        let body = match path {
            "/v1/models" | "/api/tags" if state.spoilt => "<html>busy</html>".to_owned(),
            "/v1/models" => {
                let data: Vec<_> = state.models.iter().map(openai).collect();
                json!({"object": "list", "data": data}).to_string()
            }
            "/api/tags" => {
                let models: Vec<_> = state.models.iter().map(ollama).collect();
                json!({ "models": models }).to_string()
            }
            "/api/ps" => state.loaded.as_ref().map_or_else(String::new, |loaded| {
                let models: Vec<_> = loaded.iter().map(ollama).collect();
                json!({ "models": models }).to_string()
            }),
            "/metrics" => state.places.map_or_else(String::new, |places| state.metrics(places)),
            "/api/version" => json!({"version": "0.0.1"}).to_string(),
            _ => String::new(),
        };
        let status = match (state.sick, state.forbids) {
            (true, _) => "503 Sick",
            (_, true) => "403 Forbidden",
            _ => "200 OK",
        };
        let kind = "content-type: application/json";
        format!("HTTP/1.1 {status}\r\n{kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    /// Sends the response of the script; returns whether the connection can continue.
    fn answer(&self, mut seen: Seen, stream: &mut TcpStream) -> bool {
        let mut state = self.state();
        seen.number = state.seen.len();
        seen.at = self.began.elapsed();
        state.seen.push(seen.clone());
        if let Some(loaded) = &mut state.loaded {
            *loaded = seen.json()["model"].as_str().into_iter().map(str::to_owned).collect();
        }
        state.running += 1;
        state.most = state.most.max(state.running);
        drop(state);
        self.changed.notify_all();
        let mut steps = (self.script)(&seen).0;
        let last = steps.pop_if(|last| matches!(last, Step::Send(_)));
        let mut ended = Ended::Whole;
        for step in steps {
            ended = self.take(step, stream);
            if !matches!(ended, Ended::Whole) {
                break;
            }
        }
        // A client that has the last byte knows that there is room for another request, so the
        // count comes first.
        let mut state = self.state();
        state.running -= 1;
        state.left += usize::from(matches!(ended, Ended::Left));
        drop(state);
        self.changed.notify_all();
        let whole = matches!(ended, Ended::Whole);
        whole && last.is_none_or(|last| matches!(self.take(last, stream), Ended::Whole))
    }

    fn take(&self, step: Step, stream: &mut TcpStream) -> Ended {
        let sent = |sent: io::Result<()>| if sent.is_ok() { Ended::Whole } else { Ended::Left };
        match step {
            Step::Send(bytes) => sent(stream.write_all(&bytes)),
            Step::Hold => self.hold(stream),
            Step::Work(span) => {
                let watch = Stopwatch::start();
                let look = (span / 20).min(WORK_LOOK);
                self.wait_or_leave(stream, look, |_| watch.elapsed() >= span)
            }
            Step::Silence => self.wait_or_leave(stream, LOOK, |_| false),
            Step::Endless(bytes) => {
                while !self.state().stopped && stream.write_all(&bytes).is_ok() {
                    self.state().endless += bytes.len();
                }
                Ended::Left
            }
            Step::Close => Ended::Cut,
            Step::Reset => {
                let socket = socket2::SockRef::from(&*stream);
                // With a linger time of zero, closing is a reset.
                let _ = socket.set_linger(Some(Duration::ZERO));
                self.state()
                    .connections
                    .retain(|kept| kept.peer_addr().ok() != stream.peer_addr().ok());
                Ended::Cut
            }
        }
    }

    fn hold(&self, stream: &TcpStream) -> Ended {
        let mut state = self.state();
        let ticket = state.tickets;
        state.tickets += 1;
        state.held.push_back(ticket);
        drop(state);
        self.changed.notify_all();
        let mine = |state: &State| state.permits > 0 && state.held.front() == Some(&ticket);
        let ended = self.wait_or_leave(stream, LOOK, mine);
        let mut state = self.state();
        state.held.retain(|&held| held != ticket);
        if matches!(ended, Ended::Whole) {
            state.permits -= 1;
        }
        drop(state);
        self.changed.notify_all();
        ended
    }

    /// Waits for the release, and checks now and then whether the client is still connected.
    fn wait_or_leave(
        &self,
        stream: &TcpStream,
        look: Duration,
        may: impl Fn(&State) -> bool,
    ) -> Ended {
        let mut state = self.state();
        loop {
            if state.stopped {
                return Ended::Cut;
            }
            if may(&state) {
                return Ended::Whole;
            }
            drop(state);
            if has_left(stream) {
                return Ended::Left;
            }
            let waited = self.changed.wait_timeout(self.state(), look);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn has_left(stream: &TcpStream) -> bool {
    let looked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let _ = stream.set_nonblocking(false);
    match looked {
        Ok(count) => count == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}
