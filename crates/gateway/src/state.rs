//! What all rooms share: one value, made at the start, handed to whoever needs it.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use flow::Controller;
use tokio::sync::watch;

use crate::backend::Fleet;
use crate::body_memory::BodyMemory;
use crate::clock::Clock;
use crate::config::{Resolved, Source, reload::Reloads};
use crate::connections::Connections;
use crate::ingress;
use crate::observe::Observer;
use crate::scheduler::Scheduler;
use crate::upstream::RetryBudget;

/// The running gateway's shared parts.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) clock: Clock,
    /// The configuration in force; a reload replaces it whole.
    pub(crate) config: ArcSwap<Resolved>,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) observer: Arc<Observer>,
    pub(crate) retries: RetryBudget,
    pub(crate) connections: Connections,
    pub(crate) body_memory: Arc<BodyMemory>,
    /// A name that no other gateway has.
    instance: String,
    phase: watch::Sender<Phase>,
}

/// How far the gateway's life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Open,
    /// Everybody is still served, and told to go elsewhere.
    Draining,
    /// Nobody new is taken, streams may finish.
    Closing,
    /// Whoever is still there is cut off.
    Over,
}

/// What the pages tell of the gateway as a whole, and the core cannot know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing<'a> {
    /// A name that no other running gateway has, by which it knows itself.
    pub(crate) instance: &'a str,
    pub(crate) shutting_down: bool,
}

// === impl Gate ===

impl State {
    pub(crate) fn new(config: Resolved) -> Arc<Self> {
        let clock = Clock::start();
        let scheduler = Arc::new(Scheduler::new(config.flow.clone(), clock));
        let fleet = Fleet::new(&config.fleet, Arc::clone(&scheduler), clock);
        let observer = Arc::new(Observer::new(&config.log, config.epp.llm_d_metrics));
        Arc::new(Self {
            clock,
            config: ArcSwap::from_pointee(config),
            scheduler,
            fleet,
            observer,
            retries: RetryBudget::default(),
            connections: Connections::default(),
            body_memory: Arc::default(),
            instance: ingress::headers::fresh_id(),
            phase: watch::Sender::new(Phase::Open),
        })
    }

    /// Lets those who ask how it is look elsewhere before the end begins.
    pub(crate) async fn drain(&self, time: Duration) {
        self.phase.send_replace(Phase::Draining);
        tokio::time::sleep(time).await;
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.phase.borrow() >= Phase::Draining
    }

    /// Begins the end.
    pub(crate) fn close(&self) {
        self.phase.send_replace(Phase::Closing);
        self.scheduler.with(Controller::close);
    }

    /// Ends it at once.
    pub(crate) fn cut_off(&self) {
        self.phase.send_replace(Phase::Over);
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.phase.borrow() >= Phase::Closing
    }

    /// What the pages tell of it.
    pub(crate) fn standing(&self) -> Standing<'_> {
        Standing { instance: &self.instance, shutting_down: self.is_draining() }
    }

    /// Tells of every phase that begins.
    pub(crate) fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Resolves when the end begins.
    pub(crate) fn closing(&self) -> impl Future<Output = ()> + use<> {
        self.reaches(Phase::Closing)
    }

    /// Resolves when the end has come: nobody is connected any more, the grace period is over, or
    /// somebody was in a hurry. Says how many are still connected.
    pub(crate) async fn ended(&self) -> usize {
        self.closing().await;
        let grace = self.config.load().server.grace;
        tokio::select! {
            () = self.connections.none() => {}
            () = self.reaches(Phase::Over) => {}
            () = tokio::time::sleep(grace) => {}
        }
        self.connections.count()
    }

    fn reaches(&self, phase: Phase) -> impl Future<Output = ()> + use<> {
        let mut reached = self.phase.subscribe();
        async move {
            // A sender that is gone means the same.
            let _ = reached.wait_for(|&now| now >= phase).await;
        }
    }

    /// Tells the observer which models there are, whenever that changes, for ever.
    pub(crate) async fn learn_names(self: Arc<Self>) {
        let mut learnt = self.fleet.models_changed();
        loop {
            learnt.borrow_and_update();
            self.observer.known(self.fleet.roster().numbered().map(|(name, _)| name));
            self.observer.known(self.config.load().names.ruled());
            if learnt.changed().await.is_err() {
                return;
            }
        }
    }

    /// Takes new configuration whenever there is one, for ever.
    pub(crate) async fn reload(self: Arc<Self>, source: Source) {
        let mut reloads = match Reloads::new(source, Resolved::clone(&self.config.load())) {
            Ok(reloads) => reloads,
            Err(error) => return tracing::warn!(%error, "the configuration is not watched"),
        };
        loop {
            let config = reloads.next().await;
            for notice in &config.notices {
                tracing::warn!("{notice}");
            }
            self.scheduler.with(|controller, now| controller.configure(config.flow.clone(), now));
            self.fleet.configure(&config.fleet);
            self.observer.known(config.names.ruled());
            self.config.store(Arc::new(config));
            tracing::info!("the configuration was reloaded");
        }
    }
}
