//! What each line was charged for, and the largest gap between two lines that both waited.
//!
//! The proof in `docs/FLOW.md` counts a grant with what it really cost, which is known only when it
//! ends. So grants are written down as they come and the gaps are worked out at the end, in one
//! pass: for two lines that wait throughout an interval the gap is the change of the difference of
//! their services, and the largest over all intervals is the range of that difference.

use flow::{BANDS, Band};

use crate::policy::Tenant;

/// The most lines that are compared, those with the most grants first: pairs grow with the square.
const LINES_MAX: usize = 256;

/// Grants and waits, in the order in which they happened.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// How far a line may go ahead of its turn, in cost over weight.
    slack: u64,
    marks: Vec<Mark>,
    grants: Vec<Grant>,
}

#[derive(Clone, Copy, Debug)]
enum Mark {
    /// A line begins to wait.
    Enter(u32),
    /// A line stops waiting.
    Leave(u32),
    /// A grant is made.
    Grant(u32),
    /// A grant ends.
    Settle(u32),
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    line: u32,
    charged: u64,
    real: u64,
}

/// The largest difference between the weighted services of two lines of one band while both waited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// The two tenants.
    pub tenants: [u32; 2],
    /// Their band.
    pub band: Band,
    /// The difference, in cost over weight.
    pub gap: f64,
    /// What the proof allows for these two: `(l + 2E)/w` of each, and twice the slack.
    pub bound: f64,
}

/// One line during the pass.
#[derive(Clone, Debug, Default)]
struct Account {
    line: u32,
    weight: f64,
    waits: bool,
    served: f64,
    /// The largest cost of one grant, charged or real.
    largest: u64,
    /// |real − charged| over the grants in flight, and the most it ever was.
    error: u64,
    error_max: u64,
}

/// The range of the difference of two lines in the current interval, and the largest so far.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    low: f64,
    high: f64,
    widest: f64,
}

/// The state of the pass.
struct Pass {
    accounts: Vec<Account>,
    /// By line, where its account is.
    places: Vec<Option<usize>>,
    /// By place of the one times the number of accounts plus place of the other, the smaller first.
    ranges: Vec<Range>,
}

// === impl Ledger ===

impl Ledger {
    /// Nothing has happened yet; the policy lets a line go so far ahead of its turn.
    pub(crate) fn new(slack: u64) -> Self {
        Self { slack, ..Self::default() }
    }

    /// A line begins to wait.
    pub(crate) fn enter(&mut self, line: usize) {
        self.marks.push(Mark::Enter(line as u32));
    }

    /// A line stops waiting.
    pub(crate) fn leave(&mut self, line: usize) {
        self.marks.push(Mark::Leave(line as u32));
    }

    /// A grant is made; returns its number.
    pub(crate) fn grant(&mut self, line: usize, charged: u64) -> u32 {
        let number = self.grants.len() as u32;
        self.marks.push(Mark::Grant(number));
        self.grants.push(Grant { line: line as u32, charged, real: charged });
        number
    }

    /// A grant ends with this cost; where the cost is unknown, with its charge.
    pub(crate) fn settle(&mut self, number: u32, real: Option<u64>) {
        self.marks.push(Mark::Settle(number));
        let grant = &mut self.grants[number as usize];
        grant.real = real.unwrap_or(grant.charged);
    }

    /// The gap that comes nearest to what the proof allows, or exceeds it most.
    pub fn worst_gap(&self, tenants: &[Tenant]) -> Option<Gap> {
        let gaps = self.gaps(tenants).into_iter().filter(|gap| gap.gap > 0.0);
        gaps.max_by(|one, other| (one.gap / one.bound).total_cmp(&(other.gap / other.bound)))
    }

    /// The gap of every two lines of the same band that waited at the same time.
    pub fn gaps(&self, tenants: &[Tenant]) -> Vec<Gap> {
        let mut pass = Pass::new(self.busiest(), tenants);
        for &mark in &self.marks {
            match mark {
                Mark::Enter(line) => pass.enter(line),
                Mark::Leave(line) => pass.leave(line),
                Mark::Grant(number) => pass.grant(&self.grants[number as usize]),
                Mark::Settle(number) => pass.settle(&self.grants[number as usize]),
            }
        }
        let within = |gap: Gap| Gap { bound: gap.bound + 2.0 * self.slack as f64, ..gap };
        pass.gaps().into_iter().map(within).collect()
    }

    /// The lines with the most grants.
    fn busiest(&self) -> Vec<u32> {
        let mut counts: Vec<(u64, u32)> = Vec::new();
        for grant in &self.grants {
            let known = counts.len() as u32;
            counts.extend((known..=grant.line.max(known)).map(|line| (0, line)));
            counts[grant.line as usize].0 += 1;
        }
        counts.retain(|&(count, _)| count > 0);
        counts.sort_by_key(|&(count, line)| (std::cmp::Reverse(count), line));
        counts.truncate(LINES_MAX);
        counts.into_iter().map(|(_, line)| line).collect()
    }
}

// === impl Pass ===

impl Pass {
    fn new(lines: Vec<u32>, tenants: &[Tenant]) -> Self {
        let most = lines.iter().copied().max().map_or(0, |line| line as usize + 1);
        let mut places = vec![None; most];
        for (place, &line) in lines.iter().enumerate() {
            places[line as usize] = Some(place);
        }
        let account = |line: u32| Account {
            line,
            weight: tenants[line as usize / BANDS].weight,
            ..Account::default()
        };
        let ranges = vec![Range::default(); lines.len() * lines.len()];
        Self { accounts: lines.into_iter().map(account).collect(), places, ranges }
    }

    fn place(&self, line: u32) -> Option<usize> {
        self.places.get(line as usize).copied().flatten()
    }

    fn enter(&mut self, line: u32) {
        let Some(at) = self.place(line) else { return };
        self.accounts[at].waits = true;
        self.for_rivals(at, |range, difference| {
            (range.low, range.high) = (difference, difference);
        });
    }

    fn leave(&mut self, line: u32) {
        if let Some(at) = self.place(line) {
            self.accounts[at].waits = false;
        }
    }

    fn grant(&mut self, grant: &Grant) {
        let Some(at) = self.place(grant.line) else { return };
        let account = &mut self.accounts[at];
        account.largest = account.largest.max(grant.charged).max(grant.real);
        account.error += grant.charged.abs_diff(grant.real);
        account.error_max = account.error_max.max(account.error);
        account.served += grant.real as f64 / account.weight;
        if account.waits {
            self.for_rivals(at, |range, difference| {
                range.low = range.low.min(difference);
                range.high = range.high.max(difference);
                range.widest = range.widest.max(range.high - range.low);
            });
        }
    }

    fn settle(&mut self, grant: &Grant) {
        if let Some(at) = self.place(grant.line) {
            self.accounts[at].error -= grant.charged.abs_diff(grant.real);
        }
    }

    /// Calls `update` for every other line of the band that waits.
    fn for_rivals(&mut self, at: usize, update: impl Fn(&mut Range, f64)) {
        let count = self.accounts.len();
        let own = &self.accounts[at];
        for (other, rival) in self.accounts.iter().enumerate() {
            if !rival.waits
                || other == at
                || rival.line as usize % BANDS != own.line as usize % BANDS
            {
                continue;
            }
            let (range, difference) = if at < other {
                (at * count + other, own.served - rival.served)
            } else {
                (other * count + at, rival.served - own.served)
            };
            update(&mut self.ranges[range], difference);
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        let count = self.accounts.len();
        let pairs = (0..count).flat_map(|at| (at + 1..count).map(move |other| (at, other)));
        let gap = |(at, other): (usize, usize)| {
            let Range { widest, .. } = self.ranges[at * count + other];
            let (one, two) = (&self.accounts[at], &self.accounts[other]);
            let tenants = [one.line / BANDS as u32, two.line / BANDS as u32];
            let band = Band::DESCENDING[BANDS - 1 - one.line as usize % BANDS];
            let bound = one.allowance() + two.allowance();
            (widest > 0.0).then_some(Gap { tenants, band, gap: widest, bound })
        };
        pairs.filter_map(gap).collect()
    }
}

// === impl Account ===

impl Account {
    fn allowance(&self) -> f64 {
        (self.largest + 2 * self.error_max) as f64 / self.weight
    }
}
