//! Quotas of tokens by day and month: how much of each period is used. Pure: the day is an
//! argument, counted from 1970 in UTC.

use crate::calendar;
use crate::config::settings::tenants::Quotas;

/// What a tenant has used in the present day and month.
#[derive(Debug, Default)]
pub(super) struct QuotaUse {
    day: u64,
    day_tokens: u64,
    /// The first day of the month.
    month: u64,
    month_tokens: u64,
    /// The estimates of requests that run.
    reserved: u64,
}

/// Until when a quota is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// This day.
    Day(u64),
    /// Until requests that run have used less than they hold.
    Settled,
}

fn is_over(most: Option<u64>, used: u64) -> bool {
    most.is_some_and(|most| used >= most)
}

// === impl QuotaUse ===

impl QuotaUse {
    /// Reserves the estimate of a request.
    pub(super) fn reserve(&mut self, tokens: u64, today: u64) {
        self.turn(today);
        self.reserved = self.reserved.saturating_add(tokens);
    }

    /// Replaces a reservation by the tokens that were used, in the last known day if none is given.
    pub(super) fn settle(&mut self, reserved: u64, used: u64, today: Option<u64>) {
        if let Some(today) = today {
            self.turn(today);
        }
        self.reserved = self.reserved.saturating_sub(reserved);
        self.day_tokens = self.day_tokens.saturating_add(used);
        self.month_tokens = self.month_tokens.saturating_add(used);
    }

    /// Sets what was used before a restart.
    pub(super) fn restore(&mut self, day_tokens: u64, month_tokens: u64, today: u64) {
        self.turn(today);
        (self.day_tokens, self.month_tokens) = (day_tokens, month_tokens);
    }

    /// Until when a quota is used up, if one is.
    pub(super) fn used_up(&mut self, quotas: Quotas, today: u64) -> Option<Until> {
        self.turn(today);
        if self.is_month_over(quotas) {
            return Some(Until::Day(calendar::next_month(self.day)));
        }
        if is_over(quotas.day, self.day_tokens) {
            return Some(Until::Day(self.day + 1));
        }
        let held = |used: u64| used.saturating_add(self.reserved);
        let is_held = is_over(quotas.month, held(self.month_tokens))
            || is_over(quotas.day, held(self.day_tokens));
        is_held.then_some(Until::Settled)
    }

    /// Whether the quota of the month is used up.
    pub(super) fn is_month_over(&self, quotas: Quotas) -> bool {
        is_over(quotas.month, self.month_tokens)
    }

    /// Begins a new day or month. A date that is corrected to an earlier day begins none, but the
    /// quota then ends with that day: otherwise it would be used up until the wrong day is over.
    ///
    /// The day before is no correction: a clock that is set back a little around midnight names it
    /// again, and so does a response that ended just before. The day would begin twice.
    fn turn(&mut self, today: u64) {
        if today + 1 == self.day {
            return;
        }
        if today > self.day {
            self.day_tokens = 0;
        }
        let month = calendar::month_start(today);
        if month > self.month {
            self.month_tokens = 0;
        }
        (self.day, self.month) = (today, month);
    }
}
