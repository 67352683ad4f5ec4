//! The fleet's own state: who is in it, how each is, what each serves; and what follows for the
//! core and for requests. No IO and no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flow::{BackendId, BackendSupply, ModelId, Span, Time};

use super::Attempt;
use super::catalogue::Catalogue;
use super::health::{Check, Law, Standing};
use super::member::{Face, Member, Models};
use super::metrics::Gauges;
use super::models::Lesson;
use super::names::{NOT_YET, Names};
use super::roster::{Roster, Upstream};
use super::subset::{Subset, Subsets};
use crate::clock::span;
use crate::config::resolved::{BackendSpec, FleetSettings};

/// A grant that was on its way when its backend was taken out still finds it for so long.
const LEAVING: Span = Span::from_secs(30);

/// Where backends are named. On equal names the first wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    Settings,
    EndpointsFile,
    Discovery,
}

#[derive(Debug, Default)]
pub(super) struct Crew {
    pub(super) settings: FleetSettings,
    sources: BTreeMap<Source, Vec<BackendSpec>>,
    pub(super) members: BTreeMap<BackendId, Member>,
    last_id: u32,
    names: Names,
    catalogue: Arc<Catalogue>,
    asked: Subsets,
    subsets: Arc<BTreeMap<Subset, ModelId>>,
    /// Whether lists have changed since the catalogue was made.
    stale: bool,
    leaving: Vec<(Time, Arc<Upstream>)>,
    /// What was last told.
    told: Vec<(BackendId, Face)>,
    generation: u64,
}

/// What is to be told: to the core and to requests, in the order of its generation.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) generation: u64,
    pub(super) supply: Vec<BackendSupply>,
    pub(super) roster: Arc<Roster>,
    /// Whether other models are known than before.
    pub(super) learnt: bool,
}

// === impl Crew ===

impl Crew {
    pub(super) fn law(&self) -> Law {
        let FleetSettings { eject_after, eject_for, slow_start, health_interval, .. } =
            self.settings;
        Law {
            eject_after,
            eject_for: span(eject_for),
            slow_start: span(slow_start),
            check_every: span(health_interval),
        }
    }

    pub(super) fn configure(&mut self, settings: &FleetSettings, now: Time) {
        self.settings = settings.clone();
        if settings.endpoints_file.is_none() {
            self.sources.remove(&Source::EndpointsFile);
        }
        if !settings.discover {
            self.sources.remove(&Source::Discovery);
        }
        self.set_source(Source::Settings, settings.backends.clone(), now);
    }

    /// A source names these backends now. One with the same name and URL stays who it is.
    pub(super) fn set_source(&mut self, source: Source, specs: Vec<BackendSpec>, now: Time) {
        self.sources.insert(source, specs);
        let mut known: BTreeMap<(String, String), BackendId> = BTreeMap::new();
        for (&id, member) in &self.members {
            known.insert((member.spec.id.clone(), member.spec.url.clone()), id);
        }
        let mut named = BTreeSet::new();
        for spec in self.sources.values().flatten().cloned().collect::<Vec<_>>() {
            if !named.insert(spec.id.clone()) {
                tracing::warn!(backend = %spec.id, "named twice, the first is used");
                continue;
            }
            match known.remove(&(spec.id.clone(), spec.url.clone())) {
                Some(id) => self.respecify(id, spec),
                None => self.join(spec),
            }
        }
        for id in known.into_values() {
            self.leave(id, now);
        }
        self.stale = true;
    }

    pub(super) fn report(&mut self, id: BackendId, attempt: Attempt, now: Time) {
        let law = self.law();
        let Some(member) = self.members.get_mut(&id) else { return };
        member.health.report(attempt, &law, now);
        member.upstream.pulse.set_troubled(member.health.is_troubled());
        if member.health.is_down() {
            member.nudge.notify_one();
        }
    }

    pub(super) fn checked(&mut self, id: BackendId, check: Check, began: Time, now: Time) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let said = match &check {
            Check::Good => "good".into(),
            Check::Bad(said) => said.clone(),
            Check::Refused => "connection refused".into(),
            Check::Silent => "no answer".into(),
            Check::Own => "it is this gateway itself".into(),
        };
        member.last_check = Some((now, said));
        member.health.checked(check, began, now);
    }

    /// A backend's list was asked for.
    pub(super) fn learn(&mut self, id: BackendId, lesson: Lesson) {
        let Some(member) = self.members.get_mut(&id) else { return };
        // The configuration may have given a list in the meantime.
        if !member.spec.models.is_empty() {
            return;
        }
        let backend = &member.spec.id;
        match (lesson, &member.models) {
            (Lesson::List(list), models) => {
                self.stale |= !models.same_names(&list);
                member.models = Models::Listed(list);
            }
            (Lesson::NoList(why), Models::NotYet) => {
                tracing::warn!(
                    %backend, why, "no list of models: it is sent any name; give `models` to it"
                );
                member.models = Models::Any;
                self.stale = true;
            }
            (Lesson::NoList(why), _) => tracing::debug!(%backend, why, "the old list is kept"),
            (Lesson::Later(why), _) => tracing::debug!(%backend, why, "list of models not read"),
        }
    }

    /// A backend's metrics were read, or why not. Says whether it has other adapters than before.
    pub(super) fn scraped(
        &mut self,
        id: BackendId,
        gauges: Result<Gauges, String>,
        now: Time,
    ) -> bool {
        let Some(member) = self.members.get_mut(&id) else { return false };
        match gauges {
            Ok(Gauges { reading, adapters }) => {
                member.last_reading = Some((now, reading));
                member.scrape_error = None;
                adapters != std::mem::replace(&mut member.adapters, adapters.clone())
            }
            Err(error) => {
                if member.scrape_error.is_none() {
                    tracing::debug!(backend = %member.spec.id, error, "metrics not read");
                }
                member.scrape_error = Some(error);
                false
            }
        }
    }

    /// A model is asked for that only some of its backends may serve.
    pub(super) fn narrow(&mut self, subset: Subset, now: Time) {
        self.stale |= self.asked.ask(subset, now);
    }

    /// When something changes by time alone.
    pub(super) fn next_change(&self, now: Time) -> Option<Time> {
        let law = self.law();
        let members =
            self.members.values().filter_map(|member| member.health.next_change(&law, now));
        members.chain(self.leaving.iter().map(|&(until, _)| until)).min()
    }

    /// What is to be told, if anything is new.
    pub(super) fn settle(&mut self, now: Time) -> Option<Board> {
        let leaving = self.leaving.len();
        self.leaving.retain(|&(until, _)| until > now);
        let learnt = std::mem::take(&mut self.stale);
        if learnt {
            self.names.touch(self.catalogue.names(), now);
            self.catalogue = Arc::new(Catalogue::of(&mut self.members, &mut self.names, now));
            self.subsets = Arc::new(self.asked.number(&mut self.members, &mut self.names, now));
        }
        self.members.values_mut().for_each(|member| member.log_change(now));
        let faces = self.faces(now);
        if !learnt && faces == self.told && leaving == self.leaving.len() {
            return None;
        }
        self.generation += 1;
        let supply = faces.iter().filter_map(|(id, face)| self.supply_of(*id, face)).collect();
        let roster = Arc::new(self.roster(&faces));
        self.told = faces;
        Some(Board { generation: self.generation, supply, roster, learnt })
    }

    fn join(&mut self, spec: BackendSpec) {
        self.last_id += 1;
        let id = BackendId(self.last_id);
        match Upstream::new(id, &spec) {
            Ok(upstream) if self.settings.addressed && upstream.socket.is_none() => {
                tracing::error!("{}; it is left out", upstream.nameless());
            }
            Ok(upstream) => _ = self.members.insert(id, Member::new(spec, upstream)),
            Err(problem) => tracing::error!("{problem}"),
        }
    }

    fn leave(&mut self, id: BackendId, now: Time) {
        if let Some(member) = self.members.remove(&id) {
            tracing::info!(backend = %member.spec.id, "backend removed");
            self.leaving.push((now.after(LEAVING), member.upstream));
        }
    }

    fn respecify(&mut self, id: BackendId, spec: BackendSpec) {
        let Some(member) = self.members.get_mut(&id) else { return };
        if member.spec == spec {
            return;
        }
        if member.spec.models != spec.models || member.spec.kind != spec.kind {
            member.models = Models::given(&spec);
            member.nudge.notify_one();
        }
        if let Ok(upstream) = Upstream::new(id, &spec) {
            let pulse = Arc::clone(&member.upstream.pulse);
            member.upstream = Arc::new(Upstream { pulse, ..upstream });
        }
        member.spec = spec;
    }

    fn faces(&self, now: Time) -> Vec<(BackendId, Face)> {
        let law = self.law();
        let served = self.served(now);
        let face = |(&id, member): (&BackendId, &Member)| {
            let standing = member.health.standing(now);
            let up = matches!(standing, Standing::Ready | Standing::Full(_));
            let learnt = !matches!(member.models, Models::NotYet);
            let adapters = member.adapters.iter();
            let adapters = adapters.filter_map(|name| self.catalogue.ids.get(name.as_str()));
            let face = Face {
                ready: learnt && (up || member.is_last_resort(&standing, &served)),
                paused: matches!(standing, Standing::Full(_)),
                handicap: member.health.handicap(&law, now),
                adapters: adapters.map(|id| id.0).collect(),
            };
            (id, face)
        };
        self.members.iter().map(face).collect()
    }

    /// The models that have a backend which is neither down nor ejected. Only asked for where one
    /// is ejected.
    fn served(&self, now: Time) -> BTreeSet<ModelId> {
        let standing = |member: &Member| member.health.standing(now);
        let ejected = |member| matches!(standing(member), Standing::Ejected(_));
        if !self.members.values().any(ejected) {
            return BTreeSet::new();
        }
        let fit =
            |member: &&Member| matches!(standing(member), Standing::Ready | Standing::Full(_));
        self.members.values().filter(fit).flat_map(|member| &member.serves).copied().collect()
    }

    pub(super) fn is_last_resort(&self, member: &Member, now: Time) -> bool {
        member.is_last_resort(&member.health.standing(now), &self.served(now))
    }

    fn supply_of(&self, id: BackendId, face: &Face) -> Option<BackendSupply> {
        let member = self.members.get(&id)?;
        Some(BackendSupply {
            ready: face.ready,
            paused: face.paused,
            handicap: face.handicap,
            traits: member.spec.traits,
            adapters: face.adapters.clone(),
            ..BackendSupply::new(id, member.takes())
        })
    }

    fn roster(&self, faces: &[(BackendId, Face)]) -> Roster {
        let turns = |wanted: bool| -> Vec<ModelId> {
            let ids = faces.iter().filter(|(_, face)| face.ready || !wanted).map(|(id, _)| id);
            let members = ids.filter_map(|id| self.members.get(id));
            members.filter_map(|member| member.serves.first().copied()).collect()
        };
        let mut turns = [turns(true), turns(false)].into_iter().find(|turns| !turns.is_empty());
        turns.iter_mut().for_each(|turns| turns.retain(|&model| model != NOT_YET));
        let ready = faces.iter().filter(|(_, face)| face.ready);
        let ready = ready.filter_map(|(id, _)| Some((*id, self.members.get(id)?.takes())));
        let leaving = self.leaving.iter().map(|(_, upstream)| (upstream.id, upstream.clone()));
        let present = self.members.iter().map(|(&id, member)| (id, member.upstream.clone()));
        Roster {
            backends: leaving.chain(present).collect(),
            catalogue: self.catalogue.clone(),
            turns: turns.unwrap_or_default(),
            ready: ready.collect(),
            subsets: self.subsets.clone(),
            present: self.members.len(),
            adapters: faces
                .iter()
                .flat_map(|(_, at)| &at.adapters)
                .map(|&id| ModelId(id))
                .collect(),
        }
    }
}
