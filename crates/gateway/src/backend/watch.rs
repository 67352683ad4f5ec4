//! The task that watches the backends. It starts and stops the loops of each backend.
//!
//! It sleeps until the state changes by time alone (an ejection ends, a slow start takes its next
//! step) or until another task changes it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use flow::{BackendId, Span};
use tokio::task::{AbortHandle, JoinSet};

use super::{Fleet, GatewayIdentity, discovery, endpoints_file, scrape};

/// The longest sleep.
const IDLE: Span = Span::from_secs(3600);

/// The tasks besides the watching one.
#[derive(Debug, Default)]
struct Tasks {
    set: JoinSet<()>,
    loops: BTreeMap<BackendId, [AbortHandle; 2]>,
    endpoints: Option<(PathBuf, AbortHandle)>,
    discovery: Option<AbortHandle>,
}

// === impl Fleet ===

impl Fleet {
    /// Watches the backends until the task is aborted.
    pub(crate) async fn watch(self: Arc<Self>, identity: GatewayIdentity) {
        let identity = Arc::new(identity);
        let mut tasks = Tasks::default();
        loop {
            tasks.follow(&self, &identity);
            let next = {
                let now = self.clock.now();
                self.state().next_change(now).unwrap_or(now.after(IDLE)).min(now.after(IDLE))
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep_until(self.clock.instant(next)) => self.publish_changes(),
            }
        }
    }
}

// === impl Tasks ===

impl Tasks {
    /// Starts missing tasks and aborts those that are not needed any more.
    fn follow(&mut self, fleet: &Arc<Fleet>, identity: &Arc<GatewayIdentity>) {
        while self.set.try_join_next().is_some() {}
        let (ids, path, discover) = {
            let state = fleet.state();
            let ids: Vec<BackendId> = state.backends.keys().copied().collect();
            (ids, state.settings.endpoints_file.clone(), state.settings.discover)
        };
        self.abort_unneeded(&ids);
        for id in ids {
            self.loops.entry(id).or_insert_with(|| {
                let check = self.set.spawn(fleet.clone().check_loop(id, identity.clone()));
                [check, self.set.spawn(scrape::scrape(fleet.clone(), id))]
            });
        }
        self.follow_endpoints(fleet, path);
        self.follow_discovery(fleet, discover, identity);
    }

    /// Aborts the loops of backends that are gone, and those of which one has ended.
    fn abort_unneeded(&mut self, ids: &[BackendId]) {
        self.loops.retain(|id, handles| {
            let gone = ids.binary_search(id).is_err();
            let broken = handles.iter().any(AbortHandle::is_finished);
            if gone || broken {
                handles.iter().for_each(AbortHandle::abort);
            }
            !gone && !broken
        });
    }

    fn follow_endpoints(&mut self, fleet: &Arc<Fleet>, path: Option<PathBuf>) {
        if self.endpoints.as_ref().map(|(path, _)| path) == path.as_ref() {
            return;
        }
        if let Some((_, handle)) = self.endpoints.take() {
            handle.abort();
        }
        if let Some(path) = path {
            let task = endpoints_file::follow(fleet.clone(), path.clone());
            self.endpoints = Some((path, self.set.spawn(task)));
        }
    }

    fn follow_discovery(&mut self, fleet: &Arc<Fleet>, wanted: bool, identity: &GatewayIdentity) {
        match (&self.discovery, wanted) {
            (None, true) => {
                let task = discovery::search(fleet.clone(), identity.ports());
                self.discovery = Some(self.set.spawn(task));
            }
            (Some(handle), false) => {
                handle.abort();
                self.discovery = None;
            }
            _ => {}
        }
    }
}
