//! Follows the objects of one resource: list them in pages, then watch from that version on.
//!
//! A state machine without IO and without a clock. Its driver makes the request that
//! [`Reflector::call`] names, reports what came of it, and waits for [`Reflector::delay`] after a
//! failure. The objects of the last whole list, with all events since, stay known whatever fails.
//!
//! The API server forgets old versions. It says so with 410, as a status or as an event; then the
//! objects are listed again, and the old ones stay in use until the last page is there.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::objects::{EventObject, EventType, Object, Page, Status, Versioned};
use super::resource::{PAGE_OBJECTS, Resource};
use super::trouble::{Subject, Trouble, Verb, account_in, told};

/// The most objects of one resource.
pub(super) const OBJECTS_MAX: usize = 5000;
/// The most pages of a list. The API server may send fewer objects in a page than it could.
const PAGES_MAX: usize = 4 * OBJECTS_MAX / PAGE_OBJECTS;
/// The most bytes of a list.
const LIST_BYTES_MAX: usize = 256 << 20;
/// A connection that lasted for this long was a good one.
const GOOD_AFTER: Duration = Duration::from_secs(10);
const FIRST_DELAY: Duration = Duration::from_millis(200);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// Until a kind that the cluster lacks is looked for again.
const ABSENT_DELAY: Duration = Duration::from_secs(60);
/// Lost connections in a row that an operator need not hear of: API servers restart.
const TOLERATED: u32 = 2;
/// Watches in a row that fail before the objects are listed again: the version may be why.
pub(super) const WATCH_TRIES: u32 = 5;
const GONE: u16 = 410;
/// Refusals of a watch that may be due to its version: the API server cannot read it, the address
/// is too long with it, or it is newer than all that the API server knows.
const BAD_VERSION: [u16; 3] = [400, 414, 504];

/// The objects of a resource, by name.
pub(super) type Objects<T> = BTreeMap<String, Arc<T>>;

/// See the module's description.
#[derive(Debug)]
pub(super) struct Reflector<T> {
    resource: Resource,
    /// Which of the kind's APIs is used.
    api: usize,
    stage: Stage<T>,
    objects: Objects<T>,
    /// Whether the objects were listed whole once.
    synced: bool,
    /// Failures since a watch last worked. A list that works does not end them: it would be made
    /// again and again while each watch after it fails.
    failures: u32,
    /// How often the API server had forgotten the version since a watch last worked.
    gone: u32,
    /// Whether the last request failed, so that the next one waits.
    waits: bool,
    /// Watches in a row that failed since the last list.
    failed_watches: u32,
    /// Whether all APIs of an optional kind are missing.
    absent: bool,
    /// What the role lacks in one of the APIs that were tried since the first one.
    denied: Option<Trouble>,
    /// Counts the changes of objects by events.
    revision: u64,
    trouble: Option<Trouble>,
}

#[derive(Debug)]
enum Stage<T> {
    List { continue_token: Option<String>, found: Objects<T>, overfull: bool, read: Read },
    Watch { version: String },
}

/// How much of a list was read.
#[derive(Clone, Copy, Debug, Default)]
struct Read {
    pages: usize,
    bytes: usize,
}

/// The next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    List(String),
    Watch(String),
}

/// Whether a watch goes on after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Read,
    /// The connection is of no more use.
    Close,
}

// === impl Reflector ===

impl<T: Object + DeserializeOwned> Reflector<T> {
    pub(super) fn new(resource: Resource) -> Self {
        Self {
            resource,
            api: 0,
            stage: Stage::first_page(),
            objects: Objects::new(),
            synced: false,
            failures: 0,
            gone: 0,
            waits: false,
            failed_watches: 0,
            absent: false,
            denied: None,
            revision: 0,
            trouble: None,
        }
    }

    /// The objects, once they were listed whole.
    pub(super) fn objects(&self) -> Option<&Objects<T>> {
        self.synced.then_some(&self.objects)
    }

    /// Another number after each event that changed an object.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// The group of the API that is used.
    pub(super) fn group(&self) -> &'static str {
        self.resource.api(self.api).group
    }

    /// The request to make now.
    pub(super) fn call(&self) -> Call {
        match &self.stage {
            Stage::List { continue_token, .. } => {
                Call::List(self.resource.list_path(self.api, continue_token.as_deref()))
            }
            Stage::Watch { version } => Call::Watch(self.resource.watch_path(self.api, version)),
        }
    }

    /// How long to wait before that request. `random` is between 0 and 1.
    pub(super) fn delay(&self, random: f64) -> Duration {
        if self.absent {
            return ABSENT_DELAY;
        }
        // A version may be forgotten once in a while: the first list follows at once.
        let failures = self.failures.max(self.gone.saturating_sub(1));
        let doublings = failures.checked_sub(1).filter(|_| self.waits);
        let Some(doublings) = doublings else { return Duration::ZERO };
        let longest = FIRST_DELAY.saturating_mul(1 << doublings.min(16)).min(LONGEST_DELAY);
        longest.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
    }

    /// Takes a page of the list.
    pub(super) fn listed(&mut self, body: &[u8]) {
        let page: Page<T> = match serde_json::from_slice(body) {
            Ok(page) => page,
            Err(error) => return self.unreadable(&error.to_string()),
        };
        let Stage::List { continue_token, found, overfull, read } = &mut self.stage else { return };
        *read = Read { pages: read.pages + 1, bytes: read.bytes.saturating_add(body.len()) };
        let read = *read;
        for object in page.items {
            *overfull |= found.len() >= OBJECTS_MAX;
            if !*overfull {
                found.insert(object.metadata().name.clone(), Arc::new(object));
            }
        }
        (self.waits, self.absent) = (false, false);
        let next = page.metadata.continue_token;
        if !next.is_empty() && !*overfull {
            *continue_token = Some(next);
            return self.bound_list(read);
        }
        (self.failed_watches, self.denied) = (0, None);
        let subject = Subject::of(&self.resource, self.api);
        self.trouble = overfull.then_some(Trouble::TooMany { subject, most: OBJECTS_MAX });
        self.objects = std::mem::take(found);
        self.synced = true;
        self.stage = Stage::Watch { version: page.metadata.resource_version };
    }

    /// Gives up a list that may have no end.
    fn bound_list(&mut self, read: Read) {
        if read.pages >= PAGES_MAX {
            self.unreadable(&format!("a list of more than {PAGES_MAX} pages"));
        } else if read.bytes > LIST_BYTES_MAX {
            self.unreadable(&format!("a list of more than {LIST_BYTES_MAX} bytes"));
        }
    }

    /// Takes a line of a watch.
    pub(super) fn event(&mut self, line: &[u8]) -> Next {
        let taken = match serde_json::from_slice(line) {
            Ok(EventType { name }) => self.take_event(&name, line),
            Err(error) => Err(error),
        };
        taken.unwrap_or_else(|error| {
            // A version that cannot be read would be met again: the list says more.
            self.unreadable(&error.to_string());
            Next::Close
        })
    }

    fn take_event(&mut self, name: &str, line: &[u8]) -> Result<Next, serde_json::Error> {
        let version = match name {
            "ADDED" | "MODIFIED" => {
                let EventObject::<T> { object } = serde_json::from_slice(line)?;
                let version = object.metadata().resource_version.clone();
                self.insert(object);
                version
            }
            "DELETED" => {
                let EventObject::<T> { object } = serde_json::from_slice(line)?;
                self.objects.remove(&object.metadata().name);
                self.revision += 1;
                object.metadata().resource_version.clone()
            }
            "BOOKMARK" => {
                let EventObject::<Versioned> { object } = serde_json::from_slice(line)?;
                object.metadata.resource_version
            }
            "ERROR" => {
                let EventObject::<Status> { object } = serde_json::from_slice(line)?;
                self.refused(object.code, &object.message, None);
                return Ok(Next::Close);
            }
            // A type of a later version.
            _ => return Ok(Next::Read),
        };
        if let Stage::Watch { version: known } = &mut self.stage
            && !version.is_empty()
        {
            *known = version;
        }
        Ok(Next::Read)
    }

    fn insert(&mut self, object: T) {
        self.revision += 1;
        let name = object.metadata().name.clone();
        if self.objects.len() >= OBJECTS_MAX && !self.objects.contains_key(&name) {
            let subject = Subject::of(&self.resource, self.api);
            self.trouble = Some(Trouble::TooMany { subject, most: OBJECTS_MAX });
            return;
        }
        self.objects.insert(name, Arc::new(object));
    }

    /// A watch lives for this long by now.
    pub(super) fn lasted(&mut self, lived: Duration) {
        if lived >= GOOD_AFTER {
            (self.failures, self.gone, self.failed_watches) = (0, 0, 0);
        }
    }

    /// The API server has begun to answer a watch.
    pub(super) fn accepted(&mut self) {
        if !matches!(self.trouble, Some(Trouble::TooMany { .. })) {
            self.trouble = None;
        }
    }

    /// The API server refused the request. `token_file` has the token that was sent.
    pub(super) fn refused(&mut self, status: u16, message: &str, token_file: Option<PathBuf>) {
        self.failures = self.failures.saturating_add(1);
        self.waits = true;
        let subject = Subject::of(&self.resource, self.api);
        let verb = self.verb();
        self.trouble = match status {
            // Nothing is wrong: the version is too old, or the list took too long.
            GONE => {
                self.failures -= 1;
                self.gone = self.gone.saturating_add(1);
                self.stage = Stage::first_page();
                return;
            }
            404 => return self.unknown_kind(subject),
            401 => Some(Trouble::Unauthorized { token_file }),
            403 if self.resource.kind.optional && !self.has_worked() => {
                // An older role may have the right for an older group.
                let (subject, account) = (subject.clone(), account_in(message));
                self.denied.get_or_insert(Trouble::Forbidden { verb, subject, account });
                return self.try_next_api(Subject::of(&self.resource, self.api));
            }
            403 => Some(Trouble::Forbidden { verb, subject, account: account_in(message) }),
            _ => Some(Trouble::Refused { verb, subject, status, message: told(message) }),
        };
        self.begin_again(BAD_VERSION.contains(&status));
    }

    /// The API server does not know the kind in this API: the next one is tried, unless this one
    /// has worked before.
    fn unknown_kind(&mut self, subject: Subject) {
        if !self.has_worked() {
            return self.try_next_api(subject);
        }
        // An API server that starts may not know the kind yet. Another group may be empty.
        self.stage = Stage::first_page();
        self.trouble = Some(Trouble::UnknownKind { subject });
    }

    /// Whether the present API has the kind, as far as is known.
    fn has_worked(&self) -> bool {
        self.synced && !self.absent
    }

    fn try_next_api(&mut self, subject: Subject) {
        self.stage = Stage::first_page();
        self.api += 1;
        let tried_all = self.api.is_multiple_of(self.resource.kind.apis.len());
        if !tried_all {
            self.waits = false;
            return;
        }
        self.trouble = self.denied.take();
        if self.trouble.is_none() && self.resource.kind.optional {
            // A cluster without the kind has no objects of it.
            (self.absent, self.synced) = (true, true);
        } else if self.trouble.is_none() {
            self.trouble = Some(Trouble::UnknownKind { subject });
        }
    }

    /// The request failed, or the connection of a watch ended after this time. A watch resumes from
    /// the last version that it saw.
    pub(super) fn ended(&mut self, problem: Option<String>, lived: Duration) {
        if self.verb() == Verb::Watch && lived >= GOOD_AFTER {
            self.lasted(lived);
            self.waits = false;
            // An API server ends each watch in time: the next one follows at once.
            return;
        }
        self.failures = self.failures.saturating_add(1);
        self.waits = true;
        if let Some(problem) = problem.filter(|_| self.failures > TOLERATED || !self.synced) {
            self.trouble = Some(Trouble::Unreached(told(&problem)));
        }
        self.begin_again(false);
    }

    fn unreadable(&mut self, problem: &str) {
        self.failures = self.failures.saturating_add(1);
        self.waits = true;
        let subject = Subject::of(&self.resource, self.api);
        self.trouble = Some(Trouble::Unreadable { subject, problem: told(problem) });
        self.stage = Stage::first_page();
    }

    /// Lists anew after a failure, unless a watch may resume.
    fn begin_again(&mut self, bad_version: bool) {
        let is_watch = self.verb() == Verb::Watch;
        self.failed_watches += u32::from(is_watch);
        // The next page of a list may be refused for ever.
        if !is_watch || bad_version || self.failed_watches >= WATCH_TRIES {
            self.stage = Stage::first_page();
        }
    }

    fn verb(&self) -> Verb {
        match self.stage {
            Stage::List { .. } => Verb::List,
            Stage::Watch { .. } => Verb::Watch,
        }
    }
}

// === impl Stage ===

impl<T> Stage<T> {
    fn first_page() -> Self {
        let (found, read) = (Objects::new(), Read::default());
        Self::List { continue_token: None, found, overfull: false, read }
    }
}
