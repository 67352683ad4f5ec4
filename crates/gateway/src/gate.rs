//! What all rooms share: one value, made at the start, handed to whoever needs it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use flow::Controller;
use tokio::sync::watch;

use crate::backend::Fleet;
use crate::clock::Clock;
use crate::config::{Settled, Source, reload::Reloads};
use crate::connections::Connections;
use crate::ingress;
use crate::keeper::Keeper;
use crate::observe::Observer;
use crate::relay::RetryBudget;

/// The running gateway's shared parts.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) clock: Clock,
    /// The configuration in force; a reload replaces it whole.
    pub(crate) settled: ArcSwap<Settled>,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) observer: Arc<Observer>,
    pub(crate) retries: RetryBudget,
    pub(crate) connections: Connections,
    /// A name that no other gateway has.
    instance: String,
    closing: watch::Sender<bool>,
}

/// What the pages tell of the gateway as a whole, and the core cannot know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing<'a> {
    /// A name that no other running gateway has, by which it knows itself.
    pub(crate) instance: &'a str,
    pub(crate) shutting_down: bool,
}

// === impl Gate ===

impl Gate {
    pub(crate) fn new(settled: Settled) -> Arc<Self> {
        let clock = Clock::start();
        let keeper = Arc::new(Keeper::new(settled.flow.clone(), clock));
        let fleet = Fleet::new(&settled.fleet, Arc::clone(&keeper), clock);
        let observer = Arc::new(Observer::new(&settled.log));
        Arc::new(Self {
            clock,
            settled: ArcSwap::from_pointee(settled),
            keeper,
            fleet,
            observer,
            retries: RetryBudget::default(),
            connections: Connections::default(),
            instance: ingress::headers::fresh_id(),
            closing: watch::Sender::new(false),
        })
    }

    /// Begins the end.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
        self.keeper.with(Controller::close);
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// What the pages tell of it.
    pub(crate) fn standing(&self) -> Standing<'_> {
        Standing { instance: &self.instance, shutting_down: self.is_closing() }
    }

    /// Tells when the end begins.
    pub(crate) fn closing(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// Resolves when the end has come: nobody is connected any more, or the grace period is over.
    pub(crate) async fn ended(&self) {
        closing(self.closing()).await;
        let grace = self.settled.load().server.grace;
        if tokio::time::timeout(grace, self.connections.none()).await.is_err() {
            let left = self.connections.count();
            tracing::warn!(connections = left, "the grace period is over");
        }
    }

    /// Tells the observer which models there are, whenever that changes, for ever.
    pub(crate) async fn learn_names(self: Arc<Self>) {
        let mut learnt = self.fleet.learnt();
        loop {
            learnt.borrow_and_update();
            self.observer.known(self.fleet.roster().numbered().map(|(name, _)| name));
            self.observer.known(self.settled.load().names.ruled());
            if learnt.changed().await.is_err() {
                return;
            }
        }
    }

    /// Takes new configuration whenever there is one, for ever.
    pub(crate) async fn reload(self: Arc<Self>, source: Source) {
        let mut reloads = match Reloads::new(source, Settled::clone(&self.settled.load())) {
            Ok(reloads) => reloads,
            Err(error) => return tracing::warn!(%error, "the configuration is not watched"),
        };
        loop {
            let settled = reloads.next().await;
            for notice in &settled.notices {
                tracing::warn!("{notice}");
            }
            self.keeper.with(|controller, now| controller.configure(settled.flow.clone(), now));
            self.fleet.configure(&settled.fleet);
            self.observer.known(settled.names.ruled());
            self.settled.store(Arc::new(settled));
            tracing::info!("the configuration was reloaded");
        }
    }
}

/// Resolves when the gateway begins to close.
pub(crate) async fn closing(mut signal: watch::Receiver<bool>) {
    // A sender that is gone means the same.
    let _ = signal.wait_for(|&closing| closing).await;
}
