//! The two ways to stand in front of the servers.

use std::collections::{BTreeMap, VecDeque};

use flow::{
    Ask, BackendId, BackendSupply, Band, Controller, Event, FlowClass, Hysteresis, ModelId,
    Settings, Ticket, Time, Usage, Verdict,
};

const MODEL: ModelId = ModelId(0);

/// One request.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) tenant: usize,
    pub(crate) sent: Time,
    /// Its name in the controller, once it is there.
    pub(crate) ticket: Option<Ticket>,
}

/// See the module's description.
pub(crate) enum Gate {
    Fifo { slots: usize, in_flight: usize, line: VecDeque<Request> },
    Tidegate { controller: Box<Controller>, waiting: BTreeMap<Ticket, Request> },
}

// === impl Gate ===

impl Gate {
    pub(crate) fn fifo(slots: usize) -> Self {
        Self::Fifo { slots, in_flight: 0, line: VecDeque::new() }
    }

    pub(crate) fn tidegate(slots: usize) -> Self {
        let class = FlowClass { capacity: 1000, ..FlowClass::default() };
        let bounds = Hysteresis::limit(slots as f64).unwrap_or_default().into();
        let settings = Settings { bounds, default_class: class, ..Settings::default() };
        let mut controller = Box::new(Controller::new(settings));
        let servers = BackendSupply::new(BackendId(0), vec![MODEL]);
        controller.supply(&[servers], Time::ZERO);
        Self::Tidegate { controller, waiting: BTreeMap::new() }
    }

    pub(crate) fn in_flight(&self) -> usize {
        match self {
            Self::Fifo { in_flight, .. } => *in_flight,
            Self::Tidegate { controller, .. } => controller.in_flight() as usize,
        }
    }

    /// Takes a request; returns what starts now.
    pub(crate) fn offer(&mut self, request: Request, tenant: &str, band: Band) -> Vec<Request> {
        match self {
            Self::Fifo { line, .. } => line.push_back(request),
            Self::Tidegate { controller, waiting } => {
                let flow = controller.flow(tenant, 0);
                let ask = Ask { band, ..Ask::new(flow, MODEL) };
                match controller.offer(ask, request.sent) {
                    Verdict::Granted { ticket, .. } => {
                        return vec![Request { ticket: Some(ticket), ..request }];
                    }
                    Verdict::Queued { ticket } => _ = waiting.insert(ticket, request),
                    Verdict::Refused { .. } => {}
                }
            }
        }
        self.started()
    }

    /// Ends a request; returns what starts now.
    pub(crate) fn finish(&mut self, request: Request, now: Time) -> Vec<Request> {
        match self {
            Self::Fifo { in_flight, .. } => *in_flight -= 1,
            Self::Tidegate { controller, .. } => {
                if let Some(ticket) = request.ticket {
                    // The ticket was granted by this very controller and is ended only here.
                    let _ = controller.settle(ticket, Usage::Cost(1), now);
                }
            }
        }
        self.started()
    }

    fn started(&mut self) -> Vec<Request> {
        match self {
            Self::Fifo { slots, in_flight, line } => {
                let count = (*slots - *in_flight).min(line.len());
                *in_flight += count;
                line.drain(..count).collect()
            }
            Self::Tidegate { controller, waiting } => {
                let events = std::iter::from_fn(|| controller.poll_event());
                let granted = events.filter_map(|event| match event {
                    Event::Granted { ticket, .. } => {
                        let request = waiting.remove(&ticket)?;
                        Some(Request { ticket: Some(ticket), ..request })
                    }
                    Event::Evicted { .. } => None,
                });
                granted.collect()
            }
        }
    }
}
