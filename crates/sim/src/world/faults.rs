//! What goes wrong.

use super::agenda::Event;
use super::{Trouble, World};
use crate::gate::EngineId;

// === impl World ===

impl World<'_> {
    /// A fault of the setup happens. One that names no engine happens to nobody.
    pub(super) fn strike(&mut self, number: usize) {
        let fault = self.rules.faults[number];
        let Some(server) = self.servers.get_mut(fault.engine as usize) else { return };
        match fault.what {
            Trouble::Crash => self.crash(fault.engine),
            Trouble::Return => self.come_back(fault.engine),
            Trouble::Slow(factor) => {
                server.engine.slow_down(factor);
                server.look_ahead();
            }
            Trouble::NoMetrics => server.tells = false,
            Trouble::Metrics => server.tells = true,
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
        self.agenda.add(noticed, Event::Ready(engine, false));
        for job in lost {
            self.agenda.add(noticed, Event::Fail(job.0));
        }
    }

    fn come_back(&mut self, engine: EngineId) {
        self.servers[engine as usize].up = true;
        let noticed = self.one_way();
        self.agenda.add(noticed, Event::Ready(engine, true));
    }
}
