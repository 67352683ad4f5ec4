//! `/requests/{id}`: where a request is, how many requests are ahead of it, and why it went to its
//! backend.

use flow::{BANDS, Controller, Order, Span, Stage, Time};
use serde::Serialize;

use super::id_names;
use crate::ingress::identifier::ID_MAX;
use crate::observe::{BAND_NAMES, Record};
use crate::reply::Fault;
use crate::state::State;

/// The page. Fields that do not apply are null.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct RequestPage {
    id: String,
    /// The facts below in a sentence.
    text: String,
    /// `waiting`, `in_flight` or `ended`.
    stage: &'static str,
    band: Option<&'static str>,
    flow: Option<String>,
    tenant: Option<String>,
    model: Option<String>,
    target_model: Option<String>,
    /// Since its arrival.
    age_seconds: Option<f64>,
    waited_seconds: Option<f64>,
    /// Its place among the requests of its flow, band and backends, as they would go now.
    position: Option<u32>,
    /// The order inside flows, while it waits.
    order: Option<&'static str>,
    /// Waiting requests of higher bands.
    higher_bands_waiting: Option<u32>,
    estimated_wait_seconds: Option<f64>,
    /// Instead of an estimate, for a request that is or will be late: fresh ones that come later go
    /// before it.
    least_wait_seconds: Option<f64>,
    late: Option<bool>,
    /// Whether it will be late before its turn comes, at the present rate.
    becomes_late: Option<bool>,
    /// Ready backends of its model, while it waits.
    backends_ready: Option<usize>,
    backend: Option<String>,
    /// Why this backend was chosen.
    reason: Option<&'static str>,
    attempts: Option<u32>,
    outcome: Option<&'static str>,
    status: Option<u16>,
    first_byte_seconds: Option<f64>,
    total_seconds: Option<f64>,
    prompt_tokens: Option<u64>,
    output_tokens: Option<u64>,
    ended_seconds_ago: Option<f64>,
}

/// A live ask, as the core knows it.
struct FoundAsk {
    page: RequestPage,
    backend: Option<flow::BackendId>,
    model: flow::ModelId,
    index: usize,
}

/// The page of a request, or why there is none.
pub(crate) fn page(state: &State, id: &str) -> Result<RequestPage, Fault> {
    // No request has a longer id, and the search holds the lock of the core.
    if id.len() > ID_MAX {
        return Err(Fault::RequestNotFound);
    }
    live(state, id).or_else(|| ended(state, id)).ok_or(Fault::RequestNotFound)
}

fn live(state: &State, id: &str) -> Option<RequestPage> {
    let found = state.scheduler.with(|core, now| find(state, core, (id, now)))?;
    let FoundAsk { mut page, backend, model, index } = found;
    let roster = state.fleet.roster();
    let named = id_names(&roster);
    let model = named.subsets.get(&model).copied().unwrap_or(model);
    page.target_model = named.models.get(&model).map(|name| (*name).to_owned());
    let ready = |model: &String| ready_backends(state, model);
    page.backends_ready = page.position.and(page.target_model.as_ref()).map(ready);
    page.backend = backend.and_then(|at| named.backends.get(&at)).map(|name| (*name).to_owned());
    page.reason = backend.and_then(|_| state.observer.reason_of(index));
    page.attempts = state.observer.attempts_of(index);
    page.text = live_text(&page);
    Some(page)
}

fn ready_backends(state: &State, model: &str) -> usize {
    let serves = |listed: &String| listed == model || listed == "*";
    let statuses = state.fleet.statuses();
    statuses.iter().filter(|one| one.ready && one.models.iter().any(serves)).count()
}

fn find(state: &State, core: &mut Controller, (id, now): (&str, Time)) -> Option<FoundAsk> {
    let has_id = |index: usize| state.observer.has_id(index, id.as_bytes());
    let ask = core.asks().find(|ask| has_id(ask.ticket.index()))?;
    let waits = ask.stage == Stage::Waiting;
    let flow = core.flows().find(|flow| flow.number == ask.flow).map(|flow| flow.name.to_owned());
    let band = ask.band as usize;
    let higher: u32 = (band + 1..BANDS).map(|higher| core.waiting()[higher]).sum();
    let forecast = core.wait_forecast(ask.ticket, now).filter(|_| waits);
    let wait = forecast.and_then(|known| known.wait).map(secs);
    let least = forecast.and_then(|known| known.least).map(secs).filter(|_| wait.is_none());
    let page = RequestPage {
        id: id.to_owned(),
        stage: if waits { "waiting" } else { "in_flight" },
        band: Some(BAND_NAMES[band]),
        flow,
        age_seconds: Some(secs(now.since(ask.arrival))),
        position: forecast.map(|forecast| forecast.position),
        order: forecast.map(|_| order_name(core.settings().order)),
        higher_bands_waiting: waits.then_some(higher),
        estimated_wait_seconds: wait,
        least_wait_seconds: least,
        late: waits.then_some(ask.late),
        becomes_late: forecast.map(|known| known.becomes_late),
        ..RequestPage::default()
    };
    Some(FoundAsk { page, backend: ask.backend, model: ask.model, index: ask.ticket.index() })
}

fn live_text(page: &RequestPage) -> String {
    let age = page.age_seconds.unwrap_or(0.0);
    let (flow, band) = (page.flow.as_deref().unwrap_or("-"), page.band.unwrap_or("-"));
    let Some(position) = page.position else {
        let at = page.backend.as_deref().unwrap_or("a backend");
        let why = page.reason.map(|why| format!(", chosen as {why}")).unwrap_or_default();
        let failed = page.attempts.map_or(0, |attempts| attempts.saturating_sub(1));
        let after = failures(failed).map(|failed| format!(" after {failed}")).unwrap_or_default();
        return format!("It is at {at}{why}{after}; it arrived {age:.1} s ago.");
    };
    let failed = failures(page.attempts.unwrap_or(0));
    let failed = failed.map(|failed| format!(", after {failed}")).unwrap_or_default();
    let by = match page.order {
        Some("workload") => " by its urgency",
        Some("deadline") => " by its deadline",
        Some("session") => " by the turns of sessions",
        _ => "",
    };
    let higher = match page.higher_bands_waiting {
        None | Some(0) => String::new(),
        // Where bands share by weights, or these need other backends, they do not all go first.
        Some(higher) => format!("; {higher} wait in higher bands"),
    };
    let rest = match (page.estimated_wait_seconds, page.least_wait_seconds) {
        _ if page.backends_ready == Some(0) => {
            "; no backend of its model is ready, see `tidegate status`".to_owned()
        }
        (Some(rest), _) => {
            let passed_by = page.passed_by();
            let unless = passed_by.map(|others| format!(", unless {others} come and go first"));
            format!("; about {rest:.1} s remain{}", unless.unwrap_or_default())
        }
        (None, Some(least)) if page.becomes_late == Some(true) => format!(
            "; at the present rate it will be late before its turn, and fresh requests of its flow \
             then go first: at least {least:.1} s remain"
        ),
        (None, Some(least)) => format!(
            "; it is late, so the fresh requests of its flow go first: at least {least:.1} s \
             remain, and no time can be told while fresh ones keep coming"
        ),
        (None, None) if page.late == Some(true) => {
            "; it is late, so the fresh requests of its flow go first; the rest of its wait is not \
             known"
                .to_owned()
        }
        (None, None) => "; the rest of its wait is not known".to_owned(),
    };
    format!(
        "It waits for {age:.1} s in the flow {flow}, band {band}, at place \
         {position}{by}{higher}{failed}{rest}."
    )
}

/// How many attempts of a request have failed, if any has.
fn failures(count: u32) -> Option<String> {
    let noun = if count == 1 { "attempt" } else { "attempts" };
    (count > 0).then(|| format!("{count} failed {noun}"))
}

/// As in the configuration; sessions have no name of an order there.
const fn order_name(order: Order) -> &'static str {
    match order {
        Order::Fifo => "fifo",
        Order::Deadline => "deadline",
        Order::Workload => "workload",
        Order::Session => "session",
    }
}

// === impl RequestPage ===

impl RequestPage {
    /// The requests of its flow that may still go before it when they come.
    fn passed_by(&self) -> Option<&'static str> {
        match self.order {
            Some("workload") => Some("more urgent requests of its flow"),
            Some("deadline") => Some("requests of its flow with an earlier deadline"),
            Some("session") => Some("requests of further sessions"),
            _ => None,
        }
    }
}

fn ended(state: &State, id: &str) -> Option<RequestPage> {
    let (at, record) = state.observer.ended_request(id.as_bytes())?;
    Some(ended_page(id, secs(state.clock.now().since(at)), &record))
}

/// The page of a request that ended so many seconds ago.
pub(super) fn ended_page(id: &str, ago: f64, record: &Record) -> RequestPage {
    let &Record { outcome, status, attempts, reason, .. } = record;
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let waited = record.waited.map(secs);
    let by = match record.backend.as_str() {
        "" => String::new(),
        backend if reason.is_empty() => format!(" at {backend}"),
        backend => format!(" at {backend}, chosen as {reason}"),
    };
    let after = waited.map(|waited| format!(", after a wait of {waited:.1} s")).unwrap_or_default();
    let (whole, tries) = (secs(record.total), attempts.max(1));
    let tries = if tries > 1 { format!(" with {tries} attempts") } else { String::new() };
    // The outcome says that the backend's response was passed on, whatever it was.
    let how = match outcome {
        "ok" if status >= 400 => "its backend's error was passed on",
        outcome => outcome,
    };
    RequestPage {
        id: id.to_owned(),
        text: format!(
            "It ended {ago:.0} s ago: {how}, status {status}{by}{after}; {whole:.1} s in \
             all{tries}."
        ),
        stage: "ended",
        band: record.band.map(|band| BAND_NAMES[band as usize]),
        flow: text(&record.flow),
        tenant: record.tenant.as_ref().map(|tenant| tenant.name.clone()),
        model: record.model.as_deref().map(str::to_owned),
        target_model: record.target.as_deref().map(str::to_owned),
        waited_seconds: waited,
        backend: text(&record.backend),
        reason: Some(reason).filter(|reason| !reason.is_empty()),
        attempts: Some(attempts),
        outcome: Some(outcome),
        status: Some(status),
        first_byte_seconds: record.first_byte.map(secs),
        total_seconds: Some(whole),
        prompt_tokens: record.prompt_tokens,
        output_tokens: record.output_tokens,
        ended_seconds_ago: Some(ago),
        ..RequestPage::default()
    }
}

pub(super) fn secs(span: Span) -> f64 {
    (span.secs_f64() * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(late: bool) -> RequestPage {
        RequestPage {
            position: Some(3),
            late: Some(late),
            flow: Some("lab".into()),
            band: Some("normal"),
            age_seconds: Some(2.0),
            ..RequestPage::default()
        }
    }

    #[test]
    fn m03_a_late_request_is_told_the_least_wait_only() {
        let fresh = RequestPage { estimated_wait_seconds: Some(4.3), ..waiting(false) };
        let text = live_text(&fresh);
        assert!(text.ends_with("at place 3; about 4.3 s remain."), "{text}");
        let below = RequestPage { higher_bands_waiting: Some(2), ..waiting(false) };
        let text = live_text(&below);
        assert!(text.ends_with("; 2 wait in higher bands; the rest of its wait is not known."));
        let late = RequestPage { least_wait_seconds: Some(4.3), ..waiting(true) };
        let text = live_text(&late);
        assert!(text.contains("it is late") && text.contains("at least 4.3 s remain"), "{text}");
        assert!(text.ends_with("no time can be told while fresh ones keep coming."), "{text}");
        let soon = RequestPage { becomes_late: Some(true), ..late.clone() };
        let text = live_text(&RequestPage { late: Some(false), ..soon });
        assert!(text.contains("it will be late") && text.contains("at least 4.3 s"), "{text}");
        let unknown = live_text(&waiting(true));
        assert!(unknown.contains("fresh requests of its flow go first"), "{unknown}");
    }

    #[test]
    fn m03_an_error_of_a_backend_is_not_told_as_well() {
        let ended = |status| {
            let record = Record { status, outcome: "ok", ..Record::empty() };
            ended_page("a", 1.0, &record).text
        };
        assert!(ended(200).contains(": ok, status 200;"), "{}", ended(200));
        assert!(ended(500).contains(": its backend's error was passed on, status 500;"));
    }

    #[test]
    fn m03_a_request_without_a_ready_backend_is_told_no_time() {
        let late = RequestPage { least_wait_seconds: Some(0.0), ..waiting(true) };
        let text = live_text(&RequestPage { backends_ready: Some(0), ..late.clone() });
        let rest = "at place 3; no backend of its model is ready, see `tidegate status`.";
        assert!(text.ends_with(rest), "{text}");
        assert!(live_text(&RequestPage { backends_ready: Some(1), ..late }).contains("it is late"));
    }
}
