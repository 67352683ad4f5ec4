//! What must hold inside a batching engine at every moment, recounted from scratch.

use super::{Batch, Policy};

// === impl Batch ===

impl Batch {
    /// Recounts everything that is kept up to date along the way.
    pub(in crate::engine) fn audit(&self) {
        let mut users = vec![0; self.pool.count() as usize];
        for block in self.running.iter().flat_map(|sequence| sequence.blocks()) {
            users[block.place()] += 1;
        }
        assert_eq!(self.pool.users(), users, "users of the blocks");
        let mut ring = self.pool.ring();
        assert_eq!(ring.len(), self.pool.unused() as usize, "the count of unused blocks");
        ring.sort_unstable();
        let unused = (0..users.len()).filter(|at| users[*at] == 0);
        assert!(ring.into_iter().map(|at| at as usize).eq(unused), "the ring of unused blocks");
        self.pool.audit_names();

        let planned: u32 = self.running.iter().map(|sequence| sequence.chunk()).sum();
        assert!(planned <= self.shape.max_batched_tokens, "{planned} tokens in a step");
        assert!(self.running.len() <= self.shape.max_seqs as usize, "sequences in a step");
        assert!(self.waiting.values().all(|sequence| sequence.blocks().is_empty()));
        assert_eq!(self.ranks.len(), self.running.len() + self.waiting.len(), "jobs known");
        let idle = self.running.is_empty() && self.waiting.is_empty();
        assert!(idle || self.step_ends.is_some(), "jobs and no step");
    }

    /// The order of service.
    pub(in crate::engine) fn policy(&self) -> Policy {
        self.shape.policy
    }

    /// The jobs of the batch, in order.
    pub(in crate::engine) fn batch(&self) -> Vec<u32> {
        self.running.iter().map(|sequence| sequence.job.0).collect()
    }

    /// Makes the next scheduling look for room again, whatever it remembers.
    pub(in crate::engine) fn forget_refusal(&mut self) {
        self.refused = None;
    }
}
