//! The core as it runs behind `serve`: the default configuration, automatic bounds, two backends
//! whose places are known, and prompts. Each step ends an ask, starts what is granted for it, and
//! offers another one.

use std::collections::VecDeque;

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum;
use flow::{
    Ask, BackendId, BackendSupply, BlockHasher, CAPACITY_MAX, Controller, FlowId, PromptBlocks,
    Settings, Span, Ticket, Time, Usage, Verdict,
};

use super::Shape;
use crate::controller::draw::Draw;
use crate::controller::fixture::{self, MODEL};

/// The places of each backend.
const PLACES: u32 = 32;
/// How many places may be kept free for higher bands, and at another moment are not.
const KEPT_MAX: u32 = 2;
/// The blocks of each prompt, and those at its beginning that prompts have in common.
const BLOCKS: usize = 16;
const SHARED: usize = 12;
const BLOCK: usize = 256;

/// What prompts are known to have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Prompts {
    /// Nothing is known of them.
    #[default]
    None,
    /// All begin with the same text.
    Shared,
    /// Nothing: each is another text.
    Different,
}

/// A queue of the default configuration.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    controller: Controller,
    flows: Vec<FlowId>,
    queued: u32,
    in_flight: VecDeque<Ticket>,
    offers: Vec<(Ask, PromptBlocks)>,
    now: Time,
    step: Span,
}

// === impl Served ===

impl Served {
    /// As many asks wait as the shape says, behind full backends; `draws` are for the steps.
    pub(crate) fn new(
        shape: Shape,
        prompts: Prompts,
        (filling, draws): (&[Draw], &[Draw]),
    ) -> Result<Self> {
        let mut controller = Controller::new(settings()?);
        let backend = |id| BackendSupply {
            places: Some(PLACES),
            ..BackendSupply::new(BackendId(id), vec![MODEL])
        };
        controller.supply(&[1, 2].map(backend), Time::ZERO);
        let flows = fixture::flows(&mut controller, shape.flows);
        // So an ask waits for half a second, and is in time.
        let step = Span::from_nanos(1_000_000_000 / u64::from(2 * shape.queued.max(32)));
        let (in_flight, offers) = (VecDeque::new(), Vec::new());
        let mut served = Self {
            controller,
            flows,
            queued: shape.queued,
            in_flight,
            offers,
            now: Time::ZERO,
            step,
        };
        served.offers = served.offers_of(filling, prompts, 0);
        served.fill()?;
        served.offers = served.offers_of(draws, prompts, filling.len());
        Ok(served)
    }

    fn offers_of(&self, draws: &[Draw], prompts: Prompts, from: usize) -> Vec<(Ask, PromptBlocks)> {
        let offer = |(at, draw): (usize, &Draw)| {
            let ask = Ask {
                cost: u64::from(draw.cost),
                prompt: (BLOCKS * BLOCK / 4) as u64,
                streamed: true,
                ..Ask::new(self.flows[draw.flow as usize], MODEL)
            };
            (ask, blocks(prompts, (from + at) as u64))
        };
        draws.iter().enumerate().map(offer).collect()
    }

    /// Offers asks until as many wait as should. Asks wait once all places are taken but those that
    /// are kept free; if none should wait, half of the places are taken.
    fn fill(&mut self) -> Result<()> {
        for (ask, blocks) in std::mem::take(&mut self.offers) {
            self.offer(ask, blocks)?;
            if self.controller.depth() >= self.queued && self.controller.in_flight() >= PLACES {
                return Ok(());
            }
        }
        let (depth, flying) = (self.controller.depth(), self.controller.in_flight());
        bail!("only {depth} wait and {flying} are in flight")
    }

    /// Runs so many of the prepared steps.
    pub(crate) fn cycle(&mut self, steps: usize) -> Result<()> {
        for (ask, blocks) in std::mem::take(&mut self.offers).into_iter().take(steps) {
            self.now = self.now.after(self.step);
            let oldest = self.in_flight.pop_front().context("nothing is in flight")?;
            self.controller.settle(oldest, Usage::Unknown, self.now)?;
            self.start_granted()?;
            self.offer(ask, blocks)?;
        }
        let waiting = self.controller.depth();
        let enough = waiting.abs_diff(self.queued) <= KEPT_MAX;
        ensure!(enough, "{waiting} wait instead of {}", self.queued);
        Ok(())
    }

    fn offer(&mut self, ask: Ask, blocks: PromptBlocks) -> Result<()> {
        match self.controller.offer_prompt(ask, blocks, self.now) {
            Verdict::Granted { ticket, .. } => self.start(ticket)?,
            Verdict::Queued { .. } => {}
            Verdict::Refused { reason, .. } => bail!("the core refused an ask: {reason:?}"),
        }
        self.start_granted()
    }

    fn start_granted(&mut self) -> Result<()> {
        let granted: Vec<Ticket> = fixture::granted(&mut self.controller).collect();
        granted.into_iter().try_for_each(|ticket| self.start(ticket))
    }

    /// The first token comes at once, so that the places alone bound what is in flight.
    fn start(&mut self, ticket: Ticket) -> Result<()> {
        self.in_flight.push_back(ticket);
        Ok(self.controller.started(ticket, self.now)?)
    }
}

/// What the program does without a configuration, with room for any queue.
fn settings() -> Result<Settings> {
    let config = gateway::config::load(&gateway::config::Source::default())
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut settings = config.flow;
    settings.total_capacity = CAPACITY_MAX;
    settings.default_class.capacity = CAPACITY_MAX;
    Ok(settings)
}

fn blocks(prompts: Prompts, number: u64) -> PromptBlocks {
    let shared = match prompts {
        Prompts::None => return PromptBlocks::UNKNOWN,
        Prompts::Shared => SHARED,
        Prompts::Different => 0,
    };
    let mut hasher = BlockHasher::new(1);
    hasher.add(&vec![7; shared * BLOCK]);
    let own = number.to_le_bytes().repeat(BLOCK / 8);
    (shared..BLOCKS).for_each(|_| hasher.add(&own));
    hasher.finish()
}
