//! Drives the reflectors: makes their requests, each in a task of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::api_server::{ApiServer, WatchAnswer};
use super::lines::Lines;
use super::objects::{Object, Status};
use super::reflector::{Call, Next, Objects, Reflector};
use super::resource::{Kind, Resource, Selector, WATCH_SECS};
use super::trouble::Trouble;
use crate::jitter;

/// A watch that outlasts its time by this much is dead: the API server ends each one.
pub(super) const WATCH_LIMIT: Duration = Duration::from_secs(WATCH_SECS + 20);

/// The objects of one resource as its task knows them. The task ends with it.
#[derive(Debug)]
pub(super) struct Followed<T> {
    pub(super) resource: Resource,
    listing: Arc<Mutex<Listing<T>>>,
    _task: JoinSet<()>,
}

#[derive(Debug)]
pub(super) struct Listing<T> {
    /// `None` until they were listed whole.
    pub(super) objects: Option<Objects<T>>,
    pub(super) trouble: Option<Trouble>,
    /// The group of the API that is used.
    pub(super) group: &'static str,
}

/// Where the tasks of all resources get their requests done, and how they say that they have news.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    pub(super) server: Arc<ApiServer>,
    pub(super) changed: Arc<Notify>,
}

// === impl Driver ===

impl Driver {
    /// Starts to follow a resource.
    pub(super) fn start<T>(&self, kind: Kind, selector: Selector) -> Followed<T>
    where
        T: Object + DeserializeOwned + Send + Sync + 'static,
    {
        let namespace = self.server.namespace.clone();
        let resource = Resource { kind, namespace, selector };
        let reflector = Reflector::new(resource.clone());
        let listing = Listing { objects: None, trouble: None, group: reflector.group() };
        let listing = Arc::new(Mutex::new(listing));
        let mut task = JoinSet::new();
        task.spawn(self.clone().drive(reflector, Arc::clone(&listing)));
        Followed { resource, listing, _task: task }
    }

    async fn drive<T>(self, mut reflector: Reflector<T>, listing: Arc<Mutex<Listing<T>>>)
    where
        T: Object + DeserializeOwned,
    {
        loop {
            tokio::time::sleep(reflector.delay(jitter::fraction())).await;
            match reflector.call() {
                Call::List(path) => self.list(&mut reflector, &path).await,
                Call::Watch(path) => self.watch(&mut reflector, &path, &listing).await,
            }
            self.publish(&reflector, &listing);
        }
    }

    async fn list<T: Object + DeserializeOwned>(&self, reflector: &mut Reflector<T>, path: &str) {
        match self.server.list(path).await {
            Ok(answer) if answer.status.is_success() => reflector.listed(&answer.body),
            Ok(answer) => self.refused(reflector, answer.status.as_u16(), &answer.body),
            Err(error) => reflector.ended(Some(error.to_string()), Duration::ZERO),
        }
    }

    async fn watch<T: Object + DeserializeOwned>(
        &self,
        reflector: &mut Reflector<T>,
        path: &str,
        listing: &Mutex<Listing<T>>,
    ) {
        let began = Instant::now();
        let mut response = match self.server.watch(path).await {
            Ok(WatchAnswer::Events(response)) => response,
            Ok(WatchAnswer::Refused(answer)) => {
                return self.refused(reflector, answer.status.as_u16(), &answer.body);
            }
            Err(error) => return reflector.ended(Some(error.to_string()), Duration::ZERO),
        };
        reflector.accepted();
        self.publish(reflector, listing);
        let mut lines = Lines::default();
        let problem = loop {
            let frame = tokio::time::timeout_at(began + WATCH_LIMIT, response.frame()).await;
            let bytes = match frame {
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Ok(Some(Err(error))) => break format!("the API server: {error}"),
                Ok(None) => break "the API server ends each watch at once".to_owned(),
                Err(_) => break "the API server sent nothing".to_owned(),
            };
            reflector.lasted(began.elapsed());
            let known = reflector.revision();
            let read = lines.push(&bytes, |line| reflector.event(line) == Next::Read);
            // Bookmarks and parts of lines change nothing, and a copy of all objects is dear.
            if reflector.revision() != known {
                self.publish(reflector, listing);
            }
            match read {
                Ok(true) => {}
                // The reflector has noted why.
                Ok(false) => return,
                Err(_) => break "the API server sent a line that is too long".to_owned(),
            }
        };
        reflector.ended(Some(problem), began.elapsed());
    }

    fn refused<T: Object + DeserializeOwned>(
        &self,
        reflector: &mut Reflector<T>,
        code: u16,
        body: &[u8],
    ) {
        // A proxy before the API server may answer in another form.
        let status: Status = serde_json::from_slice(body).unwrap_or_default();
        reflector.refused(code, &status.message, self.server.token_file.clone());
    }

    fn publish<T: Object + DeserializeOwned>(
        &self,
        reflector: &Reflector<T>,
        listing: &Mutex<Listing<T>>,
    ) {
        let known = Listing {
            objects: reflector.objects().cloned(),
            trouble: reflector.trouble().cloned(),
            group: reflector.group(),
        };
        *listing.lock().unwrap_or_else(PoisonError::into_inner) = known;
        self.changed.notify_one();
    }
}

// === impl Followed ===

impl<T> Followed<T> {
    pub(super) fn listing(&self) -> MutexGuard<'_, Listing<T>> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
