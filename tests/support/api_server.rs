//! An API server of Kubernetes in this process: lists in pages and watches, of objects that the
//! test puts there.
//!
//! It has the rules that a client must follow: a continuation belongs to a list, a watch begins at
//! a version, versions before a compaction are gone (410), watches end when the test cuts them, and
//! a token must be the present one.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::wait::BOUND;

/// How often a watch looks whether its client is still there.
const LOOK: Duration = Duration::from_millis(50);

/// See the module's description.
#[derive(Debug)]
pub(crate) struct ApiServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    version: u64,
    /// By the path of the collection and the name.
    objects: BTreeMap<(String, String), Value>,
    /// Every change: its version, the collection, the type and the object.
    events: Vec<(u64, String, &'static str, Value)>,
    /// Versions up to this one are gone.
    compacted: u64,
    /// Collections that exist. The others are answered with 404.
    kinds: Vec<String>,
    /// Verbs and plurals that are forbidden.
    forbidden: Vec<(&'static str, String)>,
    token: Option<String>,
    /// The users of other tokens, and the paths that each may request, with a verb before each.
    readers: BTreeMap<String, (String, Vec<String>)>,
    /// The rules of the roles of service accounts, by their tokens. Without any account every
    /// request is allowed.
    accounts: BTreeMap<String, Value>,
    /// The most objects of a page, whatever a client asks for.
    page: usize,
    /// Counts the cuts of all watches.
    cuts: u64,
    /// Whether events are sent byte by byte.
    slow: bool,
    /// How many reviews of unknown tokens may be answered, if not all.
    forged_reviews: Option<usize>,
    /// All requests: verb and path with query.
    seen: Vec<String>,
    watches: usize,
    stopped: bool,
}

/// A request.
struct Asked {
    method: String,
    body: Value,
    path: String,
    query: BTreeMap<String, String>,
    token: Option<String>,
}

/// The collections that a cluster with the inference extension has.
const POOLS: &str = "/apis/inference.networking.k8s.io/v1/namespaces/models/inferencepools";
const OLDER_POOLS: &str =
    "/apis/inference.networking.x-k8s.io/v1alpha2/namespaces/models/inferencepools";
const PODS: &str = "/api/v1/namespaces/models/pods";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/models/endpointslices";
const OBJECTIVES: &str = "/apis/llm-d.ai/v1alpha2/namespaces/models/inferenceobjectives";
const REWRITES: &str = "/apis/llm-d.ai/v1alpha2/namespaces/models/inferencemodelrewrites";

/// A ready pod at an address.
pub(crate) fn pod(name: &str, address: SocketAddr) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "vllm"}},
        "status": {
            "phase": "Running",
            "podIP": address.ip().to_string(),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// A pool of the pods with the label `app=vllm`.
pub(crate) fn pool(name: &str, ports: &[u16]) -> Value {
    let ports: Vec<Value> = ports.iter().map(|port| json!({"number": port})).collect();
    json!({
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "vllm"}},
            "targetPorts": ports,
            "endpointPickerRef": {"name": "tidegate", "port": {"number": 9002}},
        },
    })
}

// === impl ApiServer ===

impl ApiServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        {
            let mut state = shared.state();
            let kinds = [POOLS, OLDER_POOLS, PODS, SLICES, OBJECTIVES, REWRITES];
            state.kinds = kinds.map(String::from).to_vec();
            (state.page, state.version) = (500, 1);
        }
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                // A client may leave at any time.
                thread::spawn(move || drop(shared.serve(stream)));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The section of a gateway that follows this server.
    pub(crate) fn section(&self, keys: &str) -> String {
        let url = format!("http://{}", self.address);
        format!("[discovery.kubernetes]\nurl = \"{url}\"\nnamespace = \"models\"\n{keys}\n")
    }

    /// Makes or replaces an object.
    pub(crate) fn put(&self, kind: &str, mut object: Value) {
        let mut state = self.shared.state();
        state.version += 1;
        let (version, collection) = (state.version, collection(kind));
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let key = (collection.clone(), name);
        let is_new = state.objects.insert(key, object.clone()).is_none();
        let event = if is_new { "ADDED" } else { "MODIFIED" };
        state.events.push((version, collection, event, object));
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Changes an object in place.
    pub(crate) fn change(&self, kind: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let key = (collection(kind), name.to_owned());
        let mut object = self.shared.state().objects[&key].clone();
        change(&mut object);
        self.put(kind, object);
    }

    pub(crate) fn delete(&self, kind: &str, name: &str) {
        let mut state = self.shared.state();
        state.version += 1;
        let (version, collection) = (state.version, collection(kind));
        let mut object = state.objects.remove(&(collection.clone(), name.to_owned())).unwrap();
        object["metadata"]["resourceVersion"] = version.to_string().into();
        state.events.push((version, collection, "DELETED", object));
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Forgets all versions so far, and ends all watches.
    pub(crate) fn compact(&self) {
        self.set(|state| {
            (state.version, state.cuts) = (state.version + 1, state.cuts + 1);
            state.compacted = state.version;
            state.events.clear();
        });
    }

    /// Ends all watches.
    pub(crate) fn cut(&self) {
        self.set(|state| state.cuts += 1);
    }

    /// Sends each event byte by byte.
    pub(crate) fn slow_down(&self) {
        self.set(|state| state.slow = true);
    }

    pub(crate) fn set_page(&self, page: usize) {
        self.set(|state| state.page = page);
    }

    /// Wants this token from now on.
    pub(crate) fn set_token(&self, token: &str) {
        self.set(|state| state.token = Some(token.to_owned()));
    }

    /// Allows what the rules of a role allow to requests with this token.
    pub(crate) fn add_account(&self, token: &str, rules: Value) {
        self.set(|state| drop(state.accounts.insert(token.to_owned(), rules)));
    }

    /// Knows a token of this user, who may request these paths, each with a verb before it.
    pub(crate) fn add_reader(&self, token: &str, user: &str, paths: &[&str]) {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        let reader = (user.to_owned(), paths);
        self.set(|state| drop(state.readers.insert(token.to_owned(), reader)));
    }

    /// Answers so many more reviews of unknown tokens; the others wait.
    pub(crate) fn answer_forged(&self, more: usize) {
        self.set(|state| *state.forged_reviews.get_or_insert(0) += more);
    }

    pub(crate) fn forbid(&self, verb: &'static str, kind: &str) {
        self.set(|state| state.forbidden.push((verb, kind.to_owned())));
    }

    pub(crate) fn allow_all(&self) {
        self.set(|state| state.forbidden.clear());
    }

    /// The requests so far whose path contains this text.
    pub(crate) fn seen(&self, text: &str) -> Vec<String> {
        let state = self.shared.state();
        state.seen.iter().filter(|path| path.contains(text)).cloned().collect()
    }

    /// Waits until this many watches are open.
    pub(crate) fn await_watches(&self, count: usize) {
        let state = self.shared.state();
        let waited = self.shared.changed.wait_timeout_while(state, BOUND, |s| s.watches != count);
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "{} watches, not {count}: {:?}", state.watches, state.seen);
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.state());
        self.shared.changed.notify_all();
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.set(|state| state.stopped = true);
    }
}

fn collection(kind: &str) -> String {
    let known = [POOLS, PODS, SLICES, OBJECTIVES, REWRITES];
    known.into_iter().find(|path| path.ends_with(kind)).unwrap().to_owned()
}

/// Whether the rules of a role allow a verb for a collection.
fn allows(rules: &Value, verb: &str, path: &str) -> bool {
    let group = path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next()).unwrap_or("");
    let plural = path.rsplit('/').next().unwrap_or_default();
    let has =
        |list: &Value, text: &str| list.as_array().is_some_and(|list| list.contains(&text.into()));
    let mut rules = rules.as_array().into_iter().flatten();
    rules.any(|rule| {
        has(&rule["apiGroups"], group)
            && has(&rule["resources"], plural)
            && has(&rule["verbs"], verb)
    })
}

/// Whether an object has the labels, or the name, that a query selects.
fn is_selected(object: &Value, query: &BTreeMap<String, String>) -> bool {
    let labels = query.get("labelSelector").map(String::as_str).unwrap_or_default();
    let mut pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
    let has = |(name, value): (&str, &str)| object["metadata"]["labels"][name] == value;
    let name = query.get("fieldSelector").and_then(|field| field.strip_prefix("metadata.name="));
    pairs.all(has) && name.is_none_or(|name| object["metadata"]["name"] == name)
}

// === impl State ===

impl State {
    /// The answer to a review of a token, or of what a user may do.
    fn review(&self, path: &str, review: &Value) -> Value {
        let spec = &review["spec"];
        if path.ends_with("tokenreviews") {
            let reader = spec["token"].as_str().and_then(|token| self.readers.get(token));
            let status = match reader {
                Some((user, _)) => json!({
                    "authenticated": true,
                    "user": {"username": user, "groups": ["system:authenticated"]},
                }),
                None => json!({"error": "invalid bearer token"}),
            };
            return json!({"kind": "TokenReview", "status": status});
        }
        let wanted = &spec["nonResourceAttributes"];
        let [verb, path] = ["verb", "path"].map(|key| wanted[key].as_str().unwrap_or_default());
        let may = |(user, paths): &(String, Vec<String>)| {
            spec["user"] == user.as_str() && paths.contains(&format!("{verb} {path}"))
        };
        let is_known = spec["groups"][0] == "system:authenticated";
        let allowed = is_known && self.readers.values().any(may);
        json!({"kind": "SubjectAccessReview", "status": {"allowed": allowed}})
    }
}

// === impl Shared ===

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut writer = stream.try_clone()?;
        let mut reader = BufReader::new(stream);
        loop {
            let asked = Asked::read(&mut reader)?;
            let is_watch = asked.query.contains_key("watch");
            let verb = match asked.method.as_str() {
                "POST" => "create",
                _ if is_watch => "watch",
                _ => "list",
            };
            match self.refusal(&asked, verb) {
                Some((code, message)) => {
                    let status = json!({"kind": "Status", "code": code, "message": message});
                    respond(&mut writer, code, &status)?;
                }
                None if verb == "create" => {
                    self.hold_forged(&asked.body["spec"]["token"]);
                    let answer = self.state().review(&asked.path, &asked.body);
                    respond(&mut writer, 201, &answer)?;
                }
                None if is_watch => return self.watch(&asked, &mut writer),
                None => self.list(&asked, &mut writer)?,
            }
        }
    }

    /// Waits until the review of this token may be answered.
    fn hold_forged(&self, token: &Value) {
        let Some(token) = token.as_str() else { return };
        let is_held = |state: &mut State| {
            let is_known = state.readers.contains_key(token) || state.stopped;
            !is_known && state.forged_reviews == Some(0)
        };
        let waited = self.changed.wait_while(self.state(), is_held);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if !state.readers.contains_key(token) {
            state.forged_reviews = state.forged_reviews.map(|left| left.saturating_sub(1));
        }
    }

    fn refusal(&self, asked: &Asked, verb: &str) -> Option<(u16, String)> {
        let (mut state, is_watch) = (self.state(), verb == "watch");
        let query: Vec<String> =
            asked.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        state.seen.push(format!("{verb} {}?{}", asked.path, query.join("&")));
        if state.token.is_some() && state.token != asked.token {
            return Some((401, "Unauthorized".into()));
        }
        let rules = asked.token.as_ref().and_then(|token| state.accounts.get(token));
        if !state.accounts.is_empty() && rules.is_none() {
            return Some((401, "Unauthorized".into()));
        }
        let is_ours =
            |(denied, kind): &(&str, String)| *denied == verb && asked.path.ends_with(kind);
        let is_denied = rules.is_some_and(|rules| !allows(rules, verb, &asked.path));
        // The API server asks for the rights before it looks whether it knows the kind.
        if is_denied || state.forbidden.iter().any(is_ours) {
            return Some((403, format!("User \"test\" cannot {verb} resource")));
        }
        if verb == "create" {
            return None;
        }
        if !state.kinds.contains(&asked.path) {
            return Some((404, "the server could not find the requested resource".into()));
        }
        let version = asked.query.get("resourceVersion").and_then(|text| text.parse::<u64>().ok());
        let is_old = |version: Option<u64>| version.is_none_or(|version| version < state.compacted);
        let position = asked.query.get("continue").and_then(|token| token.split_once(':'));
        let listed = position.map(|(version, _)| version.parse().ok());
        if (is_watch && is_old(version)) || listed.is_some_and(is_old) {
            return Some((410, "too old resource version".into()));
        }
        None
    }

    fn list(&self, asked: &Asked, writer: &mut TcpStream) -> io::Result<()> {
        let state = self.state();
        let position = asked.query.get("continue").and_then(|token| token.split_once(':'));
        let after = position.map(|(_, name)| name);
        let ours = state.objects.iter().filter(|((collection, name), object)| {
            let is_next = after.is_none_or(|after| name.as_str() > after);
            *collection == asked.path && is_next && is_selected(object, &asked.query)
        });
        let mut items: Vec<Value> = ours.map(|(_, object)| object.clone()).collect();
        let limit = asked.query.get("limit").and_then(|limit| limit.parse().ok());
        let limit = state.page.min(limit.unwrap_or(usize::MAX));
        let is_cut = items.len() > limit;
        items.truncate(limit);
        let last = items.last().map(|object| object["metadata"]["name"].clone());
        let last = last.as_ref().and_then(Value::as_str).unwrap_or_default();
        let next = if is_cut { format!("{}:{last}", state.version) } else { String::new() };
        let metadata = json!({"resourceVersion": state.version.to_string(), "continue": next});
        drop(state);
        respond(writer, 200, &json!({"metadata": metadata, "items": items}))
    }

    fn watch(&self, asked: &Asked, writer: &mut TcpStream) -> io::Result<()> {
        writer.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
              Transfer-Encoding: chunked\r\n\r\n",
        )?;
        self.state().watches += 1;
        self.changed.notify_all();
        let ended = self.send_events(asked, writer);
        self.state().watches -= 1;
        self.changed.notify_all();
        ended
    }

    fn send_events(&self, asked: &Asked, writer: &mut TcpStream) -> io::Result<()> {
        let from = asked.query.get("resourceVersion").and_then(|text| text.parse().ok());
        let mut at: u64 = from.unwrap_or_default();
        let cuts = self.state().cuts;
        loop {
            let state = self.state();
            if state.cuts != cuts || state.stopped {
                // The connection ends in the middle of a response, as a proxy would end it.
                return Ok(());
            }
            let news = state.events.iter().filter(|(version, collection, _, object)| {
                let is_ours = *collection == asked.path && is_selected(object, &asked.query);
                *version > at && is_ours
            });
            let mut lines: Vec<Value> =
                news.map(|(_, _, kind, object)| json!({"type": kind, "object": object})).collect();
            let slow = state.slow;
            if state.version > at {
                at = state.version;
                let metadata = json!({"resourceVersion": at.to_string()});
                lines.push(json!({"type": "BOOKMARK", "object": {"metadata": metadata}}));
            }
            if !lines.is_empty() {
                drop(state);
                send_lines(writer, lines, slow)?;
                continue;
            }
            drop(self.changed.wait_timeout(state, LOOK));
            if is_gone(writer)? {
                return Ok(());
            }
        }
    }
}

fn send_lines(writer: &mut TcpStream, lines: Vec<Value>, slow: bool) -> io::Result<()> {
    for line in lines {
        let text = format!("{line}\n");
        for part in text.as_bytes().chunks(if slow { 1 } else { usize::MAX }) {
            write!(writer, "{:x}\r\n", part.len())?;
            writer.write_all(part)?;
            writer.write_all(b"\r\n")?;
        }
    }
    Ok(())
}

/// Whether the client has closed the connection.
fn is_gone(writer: &TcpStream) -> io::Result<bool> {
    writer.set_nonblocking(true)?;
    let gone = matches!(writer.peek(&mut [0]), Ok(0));
    writer.set_nonblocking(false)?;
    Ok(gone)
}

fn respond(writer: &mut impl Write, code: u16, body: &Value) -> io::Result<()> {
    let body = body.to_string();
    let head = "Content-Type: application/json\r\nContent-Length";
    write!(writer, "HTTP/1.1 {code} Said\r\n{head}: {}\r\n\r\n{body}", body.len())
}

// === impl Asked ===

impl Asked {
    fn read(reader: &mut impl io::BufRead) -> io::Result<Self> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        let length = lines.iter().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse().ok())?
        });
        let mut body = vec![0; length.unwrap_or_default()];
        reader.read_exact(&mut body)?;
        let mut words = lines.first().map(|line| line.split(' ')).into_iter().flatten();
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let bearer = |line: &String| {
            let (name, value) = line.split_once(": ")?;
            let is_token = name.eq_ignore_ascii_case("authorization");
            value.strip_prefix("Bearer ").filter(|_| is_token).map(str::to_owned)
        };
        Ok(Self {
            method: method.to_owned(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
            path: path.to_owned(),
            query: pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect(),
            token: lines.iter().find_map(bearer),
        })
    }
}

fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_at(part.len().min(2));
        let letter = u8::from_str_radix(code, 16).map(char::from);
        plain.extend(letter);
        plain.push_str(rest);
    }
    plain
}
