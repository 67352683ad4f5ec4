//! The task that watches the servers: one small loop for each, and one over all of them.
//!
//! The loop over all sleeps until something changes by time alone (an ejection ends, a slow start
//! takes its next step) or until someone has changed something. Each backend's loop asks for its
//! health, and for its list of models with it, so that a backend that comes back is never sent
//! what it no longer serves.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flow::{BackendId, Span, Time};
use tokio::task::{AbortHandle, JoinSet};

use super::crew::Crew;
use super::health::Check;
use super::member::Models;
use super::models::{Lesson, learn};
use super::probe::{Limits, Unanswered, get};
use super::roster::Upstream;
use super::{Fleet, Own, discover, endpoints, scrape};
use crate::clock;
use crate::config::resolved::BackendKind;
use crate::jitter::Jitter;

/// How often lists of models are asked for.
const LEARN_EVERY: Span = Span::from_secs(30);
/// A health check's answer is not read further.
const HEALTH_BODY_MAX: usize = 1 << 20;
const LIST_BODY_MAX: usize = 4 << 20;
/// Loops begin within this time of each other, not all at once.
const SPREAD: Duration = Duration::from_millis(50);
/// The loop over all looks around at least this often.
const IDLE: Span = Span::from_secs(3600);

/// What runs besides the loop over all.
#[derive(Debug, Default)]
struct Tasks {
    set: JoinSet<()>,
    loops: BTreeMap<BackendId, [AbortHandle; 2]>,
    endpoints: Option<(PathBuf, AbortHandle)>,
    discovery: Option<AbortHandle>,
}

/// What a round of one backend's loop needs to know.
#[derive(Debug)]
struct Ward {
    upstream: Arc<Upstream>,
    nudge: Arc<tokio::sync::Notify>,
    time: Duration,
    learns: bool,
    /// Whether its list must be had before it can be ready.
    urgent: bool,
}

// === impl Fleet ===

impl Fleet {
    /// Watches the servers for ever.
    pub(crate) async fn watch(self: Arc<Self>, own: Own) {
        let own = Arc::new(own);
        let mut tasks = Tasks::default();
        loop {
            tasks.follow(&self, &own);
            let next = {
                let now = self.clock.now();
                self.crew().next_change(now).unwrap_or(now.after(IDLE)).min(now.after(IDLE))
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep_until(self.clock.instant(next)) => self.settle(),
            }
        }
    }

    fn ward(&self, id: BackendId) -> Option<Ward> {
        let crew = self.crew();
        let member = crew.members.get(&id)?;
        Some(Ward {
            upstream: member.upstream.clone(),
            nudge: member.nudge.clone(),
            time: crew.settings.health_timeout,
            learns: member.spec.models.is_empty(),
            urgent: member.health.is_down() || matches!(member.models, Models::NotYet),
        })
    }

    /// Looks after one backend for as long as it is there.
    async fn look_after(self: Arc<Self>, id: BackendId, own: Arc<Own>) {
        let mut jitter = Jitter::new(u64::from(id.0));
        let mut learn_at = Time::ZERO;
        tokio::time::sleep(jitter.part_of(SPREAD)).await;
        while let Some(ward) = self.ward(id) {
            let began = self.clock.now();
            let check = self.check(&ward, &own).await;
            let mut lesson = None;
            if check == Check::Good && ward.learns && (ward.urgent || began >= learn_at) {
                lesson = Some(self.learn(&ward).await);
                learn_at = began.after(LEARN_EVERY);
            }
            let pause = self.change(|crew, now| {
                crew.checked(id, check, began, now);
                lesson.into_iter().for_each(|lesson| crew.learn(id, lesson));
                crew.next_check(id)
            });
            tokio::select! {
                () = tokio::time::sleep(jitter.around(clock::duration(pause))) => {}
                () = ward.nudge.notified() => {}
            }
        }
    }

    async fn check(&self, ward: &Ward, own: &Own) -> Check {
        if own.is_at(&ward.upstream.authority) {
            return Check::Own;
        }
        let Ok(_permit) = self.probes.acquire().await else { return Check::Silent };
        let limits = Limits { time: ward.time, body: HEALTH_BODY_MAX };
        check(&ward.upstream, own, limits).await
    }

    async fn learn(&self, ward: &Ward) -> Lesson {
        let Ok(_permit) = self.probes.acquire().await else {
            return Lesson::Later("shutting down".into());
        };
        learn(&ward.upstream, Limits { time: ward.time, body: LIST_BODY_MAX }).await
    }
}

/// Asks a server how it is, in the way of its kind.
pub(super) async fn check(upstream: &Upstream, own: &Own, limits: Limits) -> Check {
    let path = match upstream.kind {
        BackendKind::Ollama => "/api/version",
        BackendKind::OpenAi => "/v1/models",
        BackendKind::Vllm | BackendKind::Sglang | BackendKind::LlamaCpp | BackendKind::Generic => {
            "/health"
        }
    };
    // These need not have the path, or not for us: that they answer is all that can be asked.
    let lenient = matches!(upstream.kind, BackendKind::OpenAi | BackendKind::Generic);
    match get(upstream, path, limits).await {
        Ok(answer) if own.wrote(&answer.body) => Check::Own,
        Ok(answer) if answer.status.is_success() => Check::Good,
        Ok(answer) if lenient && !answer.status.is_server_error() => Check::Good,
        Ok(answer) => Check::Bad(format!("{path} answered {}", answer.status)),
        // It answers, and at length.
        Err(Unanswered::TooLong) => Check::Good,
        Err(Unanswered::Refused) => Check::Refused,
        Err(Unanswered::TimedOut | Unanswered::Lost(_)) => Check::Silent,
    }
}

// === impl Tasks ===

impl Tasks {
    /// Starts what is missing and ends what is not wanted any more.
    fn follow(&mut self, fleet: &Arc<Fleet>, own: &Arc<Own>) {
        while self.set.try_join_next().is_some() {}
        let (ids, path, discover) = {
            let crew = fleet.crew();
            let ids: Vec<BackendId> = crew.members.keys().copied().collect();
            (ids, crew.settings.endpoints_file.clone(), crew.settings.discover)
        };
        self.loops.retain(|id, handles| {
            let gone = ids.binary_search(id).is_err();
            let broken = handles.iter().any(AbortHandle::is_finished);
            if gone || broken {
                handles.iter().for_each(AbortHandle::abort);
            }
            !gone && !broken
        });
        for id in ids {
            self.loops.entry(id).or_insert_with(|| {
                let check = self.set.spawn(fleet.clone().look_after(id, own.clone()));
                [check, self.set.spawn(scrape::scrape(fleet.clone(), id))]
            });
        }
        self.follow_endpoints(fleet, path);
        self.follow_discovery(fleet, discover, own);
    }

    fn follow_endpoints(&mut self, fleet: &Arc<Fleet>, path: Option<PathBuf>) {
        if self.endpoints.as_ref().map(|(path, _)| path) == path.as_ref() {
            return;
        }
        if let Some((_, handle)) = self.endpoints.take() {
            handle.abort();
        }
        if let Some(path) = path {
            let task = endpoints::follow(fleet.clone(), path.clone());
            self.endpoints = Some((path, self.set.spawn(task)));
        }
    }

    fn follow_discovery(&mut self, fleet: &Arc<Fleet>, wanted: bool, own: &Own) {
        match (&self.discovery, wanted) {
            (None, true) => {
                let task = discover::search(fleet.clone(), own.ports());
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

// === impl Crew ===

impl Crew {
    fn next_check(&self, id: BackendId) -> Span {
        let law = self.law();
        let Some(member) = self.members.get(&id) else { return Span::ZERO };
        let every = member.health.next_check(&law);
        // Whose list is missing is not ready, however well it is.
        let soon = Span::from_secs(1);
        if matches!(member.models, Models::NotYet) { every.min(soon) } else { every }
    }
}
