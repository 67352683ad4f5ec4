//! A flow's place in one round: its line of asks and the tag that says when its turn comes.

use super::line::Line;
use super::round::Turn;
use crate::ask::Band;
use crate::links::NONE;
use crate::weight::Weight;

#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// Virtual time at which its next ask starts.
    pub(crate) tag: u64,
    pub(crate) weight: Weight,
    pub(crate) line: Line,
    pub(crate) waiting: u32,
    pub(crate) flow: u32,
    pub(crate) pool: u32,
    /// The flow's next claim.
    pub(crate) next: u32,
    /// Breaks ties between equal tags: the claim that moved longest ago goes first.
    pub(crate) turn: u32,
    /// How often it has begun to take part. Refunds of what it was charged in an earlier period
    /// are credit from a time when it did not wait, and are void while it does.
    pub(crate) period: u32,
    pub(crate) band: Band,
    /// Whether it takes part in its round: something waits, and a limit does not forbid it.
    pub(crate) active: bool,
    pub(crate) cost_waiting: u64,
}

/// All claims.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    claims: Vec<Claim>,
    free: Vec<u32>,
}

// === impl Claim ===

impl Claim {
    /// Its place in the order of its round, under the number it has among all claims.
    pub(crate) fn turn(&self, claim: u32) -> Turn {
        Turn { tag: self.tag, turn: self.turn, claim }
    }
}

// === impl Claims ===

impl Claims {
    pub(crate) fn insert(&mut self, claim: Claim) -> u32 {
        if let Some(at) = self.free.pop() {
            self.claims[at as usize] = claim;
            return at;
        }
        self.claims.push(claim);
        self.claims.len() as u32 - 1
    }

    pub(crate) fn remove(&mut self, at: u32) {
        self.claims[at as usize].flow = NONE;
        self.free.push(at);
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Claim> {
        self.claims.iter_mut().filter(|claim| claim.flow != NONE)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.claims.len() as u32).filter(|&at| self[at].flow != NONE)
    }
}

impl std::ops::Index<u32> for Claims {
    type Output = Claim;

    fn index(&self, at: u32) -> &Claim {
        &self.claims[at as usize]
    }
}

impl std::ops::IndexMut<u32> for Claims {
    fn index_mut(&mut self, at: u32) -> &mut Claim {
        &mut self.claims[at as usize]
    }
}
