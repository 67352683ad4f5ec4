//! Faults of engines.

use super::event_queue::Event;
use super::{FaultKind, World};
use crate::policy::EngineId;

// === impl World ===

impl World<'_> {
    /// Injects a fault of the setup. A fault of an unknown engine has no effect.
    pub(super) fn inject_fault(&mut self, number: usize) {
        let fault = self.rules.faults[number];
        let Some(server) = self.servers.get_mut(fault.engine as usize) else { return };
        match fault.what {
            FaultKind::Crash => self.crash(fault.engine),
            FaultKind::Return => self.come_back(fault.engine),
            FaultKind::Slow(factor) => {
                server.engine.slow_down(factor);
                server.look_ahead();
            }
            FaultKind::NoMetrics => server.tells = false,
            FaultKind::Metrics => server.tells = true,
        }
    }

    /// The gateway sees connections break: it learns at once that the engine is gone, and then of
    /// each request that was there.
    fn crash(&mut self, engine: EngineId) {
        let server = &mut self.servers[engine as usize];
        server.up = false;
        server.preemptions_before = server.preemptions();
        let lost = server.engine.crash();
        server.look_ahead();
        let noticed = self.one_way();
        self.event_queue.add(noticed, Event::Ready(engine, false));
        for job in lost {
            self.event_queue.add(noticed, Event::Fail(job.0));
        }
    }

    fn come_back(&mut self, engine: EngineId) {
        self.servers[engine as usize].up = true;
        let noticed = self.one_way();
        self.event_queue.add(noticed, Event::Ready(engine, true));
    }
}
