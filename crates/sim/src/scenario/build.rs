//! From one cell of a scenario to a world that can run.

use std::sync::Arc;

use flow::{BANDS, Span, Time};

use super::{Cell, Lengths, Rhythm, Scenario, ScenarioError, Traces, Traffic};
use crate::arrivals::{self, Arrivals, ClosedLoop, Process, PromptWriter, Request};
use crate::random::Random;
use crate::trace::Trace;
use crate::world::{Bands, Setup, Source, Tenancy};

/// The engines, traffic and troubles of a cell.
pub(super) fn setup(
    scenario: &Scenario,
    traces: &Traces,
    cell: Cell,
) -> Result<Setup, ScenarioError> {
    let policy = &scenario.policies[cell.policy];
    let source = |(at, traffic): (usize, &Traffic)| {
        let trace = traffic.find(at, traces)?;
        traffic.source(at, trace, &policy.without, Moment { scenario, cell })
    };
    let sources: Result<Vec<Source>, _> = scenario.traffic.iter().enumerate().map(source).collect();
    let mut engines = scenario.engines.clone();
    engines.truncate(policy.fixed_engines.map_or(usize::MAX, |count| count as usize));
    Ok(Setup {
        tenants: scenario.tenants.clone(),
        network: scenario.network,
        metrics: scenario.metrics.filter(|_| policy.metrics),
        faults: scenario.faults.clone(),
        scaling: scenario.scaling.zip(policy.scale_by),
        drain: scenario.drain,
        warm_up: scenario.warm_up,
        seed: cell.seed,
        ..Setup::new(engines, sources?, scenario.duration)
    })
}

/// What a source's arrivals depend on besides its traffic.
#[derive(Clone, Copy)]
struct Moment<'a> {
    scenario: &'a Scenario,
    cell: Cell,
}

// === impl Traffic ===

impl Traffic {
    fn find<'a>(
        &self,
        at: usize,
        traces: &'a Traces,
    ) -> Result<Option<&'a Arc<Trace>>, ScenarioError> {
        let Some(name) = &self.trace else { return Ok(None) };
        let missing = || ScenarioError::new(format!("traffic[{at}].trace"), format!("no `{name}`"));
        traces.get(name).map(Some).ok_or_else(missing)
    }

    fn source(
        &self,
        at: usize,
        trace: Option<&Arc<Trace>>,
        without: &[String],
        moment: Moment<'_>,
    ) -> Result<Source, ScenarioError> {
        let Moment { scenario, cell } = moment;
        let lengths = match trace {
            Some(trace) => arrivals::Lengths::Trace(Arc::clone(trace)),
            None => self.lengths.drawn(),
        };
        let from = self.from;
        let end = self.until.map_or(scenario.duration, |until| until.min(scenario.duration));
        let until = match self.rhythm {
            Rhythm::Closed { .. } => Time::NEVER,
            _ => Time::from_nanos(end.nanos().saturating_sub(from.nanos())),
        };
        let random = Random::new(cell.seed).fork(&format!("traffic {at}"));
        let arrivals = Arrivals::new(self.rhythm.at(cell.load), lengths, &random, until)
            .map_err(|error| ScenarioError::new(format!("traffic[{at}]"), error.to_string()))?;
        let names = match (&self.tenant, trace) {
            (Some(name), _) => vec![name.clone()],
            (None, Some(trace)) => trace.clients.clone(),
            (None, None) => vec![format!("traffic-{at}")],
        };
        let away: Vec<bool> = names.iter().map(|name| without.contains(name)).collect();
        // A stream without end of requests that stay away would be searched for ever.
        let closed_loop = match away.contains(&false) {
            true => self.closed_loop(cell.load, end),
            false => self.closed_loop(0.0, end),
        };
        let one = names.len() == 1;
        let mut writer = self.shared.map(|shared| PromptWriter::new(shared, &random));
        let write = move |request: Request| match &mut writer {
            Some(writer) => writer.write(request),
            None => request,
        };
        let stays = move |client: u32| !away[if one { 0 } else { client as usize }];
        Ok(Source {
            arrivals: Box::new(
                arrivals
                    .filter(move |request| stays(request.client))
                    .map(move |request| Request { at: request.at.after(from), ..request })
                    .map(write),
            ),
            closed_loop,
            tenancy: match one {
                true => Tenancy::One(names.into_iter().next().unwrap_or_default()),
                false => Tenancy::Clients(names),
            },
            bands: self.bands(),
            patience: self.patience,
            ttl: self.ttl,
        })
    }

    /// The most requests per second that it ever sends at load 1, a replay aside: that is as long
    /// as its trace.
    pub(super) fn rate_max(&self) -> f64 {
        match self.rhythm {
            Rhythm::Poisson { rate } | Rhythm::Gamma { rate, .. } => rate,
            Rhythm::OnOff { rate, quiet_rate, .. } => rate.max(quiet_rate),
            Rhythm::Replay { .. } => 0.0,
            // As fast as clients can be refused; `Retry-After` is a second at least.
            Rhythm::Closed { outstanding, pause, .. } => {
                f64::from(outstanding) / pause.unwrap_or(Span::from_secs(1)).secs_f64()
            }
        }
    }

    /// The clients that keep requests outstanding, if its clients do so.
    fn closed_loop(&self, load: f64, end: Span) -> Option<ClosedLoop> {
        let Rhythm::Closed { outstanding, think, pause } = self.rhythm else { return None };
        let outstanding = (f64::from(outstanding) * load).round() as u32;
        let [from, until] = [self.from, end].map(|span| Time::ZERO.after(span));
        Some(ClosedLoop { outstanding, from, until, think, pause })
    }

    fn bands(&self) -> Bands {
        let only = (0..BANDS).find(|&band| self.bands[band] >= 1.0);
        let ascending = |band: usize| flow::Band::DESCENDING[BANDS - 1 - band];
        only.map_or(Bands::Mixed(self.bands), |band| Bands::Fixed(ascending(band)))
    }
}

// === impl Lengths ===

impl Lengths {
    fn drawn(self) -> arrivals::Lengths {
        let Self { prompt, prompt_cv, output, output_cv } = self;
        if prompt_cv == 0.0 {
            return arrivals::Lengths::Fixed { prompt: prompt as u32, output: output as u32 };
        }
        arrivals::Lengths::Lognormal {
            prompt_mean: prompt,
            prompt_cv,
            output_mean: output,
            output_cv,
        }
    }
}

// === impl Rhythm ===

impl Rhythm {
    fn at(self, load: f64) -> Process {
        match self {
            Self::Poisson { rate } => Process::Poisson { rate: rate * load },
            Self::Gamma { rate, cv } => Process::Gamma { rate: rate * load, cv },
            Self::OnOff { rate, quiet_rate, on, off, periods } => {
                let (rate, quiet_rate) = (rate * load, quiet_rate * load);
                Process::OnOff { rate, quiet_rate, on, off, periods }
            }
            Self::Replay { speed } => Process::Replay { speed: speed * load },
            Self::Closed { .. } => Process::OnDemand,
        }
    }
}
