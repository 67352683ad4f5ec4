//! One policy over time: waits by band, the load of the engines, the service of each tenant.

use flow::{Band, Time};

use crate::measure::{EngineMoment, History, Moment, Record};
use crate::plot::{Axis, Chart, Series, Style, Unit};
use crate::scenario::BAND_NAMES;

use super::curve::Slices;

/// More lines than these are not told apart.
const FLOWS_SHOWN: usize = 6;
/// More engines than these are shown as their sum.
const ENGINES_SHOWN: usize = 4;

/// More points than these make a small chart no finer.
const MOMENTS_SHOWN: usize = 200;

/// What a line shows of an engine.
type OfEngine = fn(&EngineMoment) -> f64;

/// The charts of one run.
pub(super) fn all(history: &History, policy: &str) -> Vec<Chart> {
    let charts = [
        ttft_by_band(history),
        ttft_by_flow(history),
        stock(history),
        waiting(history),
        service(history),
        cache(history),
    ];
    let charts = charts.into_iter().filter(|chart| !chart.series.is_empty());
    charts.map(|chart| Chart { title: format!("{policy}: {}", chart.title), ..chart }).collect()
}

fn over_time(title: &str, subtitle: &str, y: Axis, series: Vec<Series>) -> Chart {
    Chart {
        title: title.to_owned(),
        subtitle: subtitle.to_owned(),
        x: Axis::linear("time", Unit::Seconds),
        y,
        series,
    }
}

fn ttft_by_band(history: &History) -> Chart {
    let mut series = Vec::new();
    for band in Band::DESCENDING {
        let slices = Slices::new(history, |record| record.band == band);
        if history.records.iter().any(|record| record.band == band) {
            let (name, hue) = (BAND_NAMES[band as usize], 3 - band as usize);
            series.push(Series::new(name, Style::Line, hue, slices.points(|stat| stat.p50)));
            series.push(Series::new("", Style::Dashed, hue, slices.points(|stat| stat.p99)));
        }
    }
    let y = Axis::log("time to the first token", Unit::Seconds);
    over_time(
        "time to the first token by band",
        "solid p50, dashed p99, by time of arrival",
        y,
        series,
    )
}

/// Flows in the band that has the most requests: a median over several bands would jump from one
/// to the other.
fn ttft_by_flow(history: &History) -> Chart {
    let requests = |band: &Band| history.records.iter().filter(|r| r.band == *band).count();
    let band = Band::DESCENDING.into_iter().max_by_key(requests).unwrap_or_default();
    let series = |(hue, tenant): (usize, u32)| {
        let own = |record: &Record| record.tenant == tenant && record.band == band;
        let name = &history.tenants[tenant as usize].name;
        Series::new(name, Style::Line, hue, Slices::new(history, own).points(|stat| stat.p50))
    };
    let top = history.series.top(FLOWS_SHOWN).into_iter().enumerate().map(series).collect();
    let y = Axis::log("time to the first token", Unit::Seconds);
    let subtitle =
        format!("p50, {} requests of the flows that got most", BAND_NAMES[band as usize]);
    over_time("time to the first token by flow", &subtitle, y, top)
}

/// The moments while requests arrive, as many as a small chart can show: what comes after is only
/// the end of the run.
fn moments(history: &History) -> impl Iterator<Item = (f64, &Moment)> {
    let end = history.series.moments.partition_point(|moment| moment.at <= history.window.to);
    let at = |moment: &Moment| moment.at.since(Time::ZERO).secs_f64();
    let every = end.div_ceil(MOMENTS_SHOWN).max(1);
    let shown = history.series.moments[..end].iter().step_by(every);
    shown.map(move |moment| (at(moment), moment))
}

/// One series for each engine, or their sum where there are many.
fn engines(history: &History, style: &Style, named: bool, value: OfEngine) -> Vec<Series> {
    let count = history.series.moments.first().map_or(0, |moment| moment.engines.len());
    let name = |name: String| if named { name } else { String::new() };
    if count > ENGINES_SHOWN {
        let sum = |moment: &Moment| moment.engines.iter().map(value).sum();
        let points = moments(history).map(|(at, moment)| (at, sum(moment))).collect();
        return vec![Series::new(name("all engines".to_owned()), style.clone(), 0, points)];
    }
    let one = |engine: usize| {
        let points = moments(history).map(|(at, moment)| (at, value(&moment.engines[engine])));
        Series::new(name(format!("engine {engine}")), style.clone(), engine, points.collect())
    };
    (0..count).map(one).collect()
}

fn stock(history: &History) -> Chart {
    let limit: OfEngine = |engine| engine.limit.unwrap_or(f64::NAN);
    let mut series = engines(history, &Style::Dashed, false, limit);
    series.extend(engines(history, &Style::Step, true, |engine| f64::from(engine.in_flight)));
    let y = Axis::linear("requests in flight", Unit::Plain);
    over_time("stock against its bound", "solid in flight, dashed the most allowed", y, series)
}

fn waiting(history: &History) -> Chart {
    let mut series = Vec::new();
    for band in Band::DESCENDING {
        let count = |moment: &Moment| f64::from(moment.waiting[band as usize]);
        let points: Vec<(f64, f64)> =
            moments(history).map(|(at, moment)| (at, count(moment))).collect();
        if history.records.iter().any(|record| record.band == band) {
            let name = BAND_NAMES[band as usize];
            series.push(Series::new(name, Style::Step, 3 - band as usize, points));
        }
    }
    let inside = |moment: &Moment| {
        moment.engines.iter().map(|engine| f64::from(engine.waiting)).sum::<f64>()
    };
    let points = moments(history).map(|(at, moment)| (at, inside(moment))).collect();
    series.push(Series::new("in engines", Style::Step, 4, points));
    let y = Axis::linear("requests", Unit::Plain);
    over_time("requests that wait", "by band at the gateway, and inside the engines", y, series)
}

fn service(history: &History) -> Chart {
    let mut series = Vec::new();
    for (hue, tenant) in history.series.top(FLOWS_SHOWN).into_iter().enumerate() {
        let share = |moment: &Moment| moment.shares.get(tenant as usize).copied();
        let line = |of: fn(crate::measure::Share) -> f64| {
            let shares = moments(history).filter_map(|(at, moment)| Some((at, share(moment)?)));
            shares.map(|(at, share)| (at, of(share))).collect::<Vec<_>>()
        };
        let name = &history.tenants[tenant as usize].name;
        series.push(Series::new("", Style::Dashed, hue, line(|share| share.fair)));
        series.push(Series::new(name, Style::Line, hue, line(|share| share.got)));
    }
    let y = Axis::linear("tokens, output twice", Unit::Plain);
    let subtitle = "solid what each flow got, dashed its fair share of what was served";
    over_time("service by flow", subtitle, y, series)
}

fn cache(history: &History) -> Chart {
    let has = |engine: &EngineMoment| engine.kv_used > 0.0;
    let mut seen = history.series.moments.iter().flat_map(|moment| &moment.engines);
    let few = history.series.moments.first().is_some_and(|m| m.engines.len() <= ENGINES_SHOWN);
    let series = match few && seen.any(has) {
        true => engines(history, &Style::Line, true, |engine| engine.kv_used),
        false => Vec::new(),
    };
    let y = Axis::linear("KV cache in use", Unit::Share);
    over_time("memory of the engines", "", y, series)
}
