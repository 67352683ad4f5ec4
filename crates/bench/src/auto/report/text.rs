//! A study as Markdown tables.

use std::fmt::{Display, Formatter, Result};

use super::{COLLAPSE, EXCEED, GOAL, KEEP, Ramp, Ratio, Report, Robust, Row, Spread, Summary};
use crate::auto::run::Figures;
use testbed::table::{number, table};

// === impl Report ===

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.quick {
            writeln!(f, "A quick run: short, with few engines and seeds.\n")?;
        }
        best(f, &self.rows)?;
        stock(f, "auto with metrics, over the best fixed", &self.rows, |row| &row.metrics)?;
        stock(f, "auto without metrics, over the best fixed", &self.rows, |row| &row.blind)?;
        summary(f, &self.summary)?;
        robust(f, &self.robust)?;
        mixed(f, self)?;
        ramps(f, &self.ramps)?;
        collapses(f, self)
    }
}

fn best(f: &mut Formatter<'_>, rows: &[Row]) -> Result {
    let heads = [
        "case",
        "requests/s",
        "watermark",
        "tokens/s",
        "critical p99 s",
        "preempted",
        "TPOT ms",
        "2: tokens",
        "64: tokens",
        "64: critical",
    ];
    let row = |row: &Row| {
        let [two, many] =
            row.constants.map(|one| Ratio::of(String::new(), &one, &row.knee.figures));
        let figures = row.knee.figures;
        vec![
            row.case.clone(),
            fixed(row.capacity, 1),
            row.knee.watermark.to_string(),
            fixed(figures.tokens, 0),
            fixed(figures.critical, 2),
            fixed(figures.preemptions, 0),
            fixed(1000.0 * figures.tpot, 0),
            fixed(two.tokens, 2),
            fixed(many.tokens, 2),
            fixed(many.critical, 1),
        ]
    };
    table(f, "The best fixed watermark, and two constants over it", &heads, each(rows, row))
}

fn stock(f: &mut Formatter<'_>, title: &str, rows: &[Row], pick: fn(&Row) -> &Figures) -> Result {
    let heads = [
        "case",
        "tokens",
        "critical p99",
        "in flight",
        "preempted",
        "TPOT ms",
        "unstarted %",
        "tokens %",
        "slots %",
        "both",
    ];
    let row = |row: &Row| {
        let figures = pick(row);
        let ratio = Ratio::of(String::new(), figures, &row.knee.figures);
        let [unstarted, tokens, slots] = figures.bound.map(|share| fixed(100.0 * share, 0));
        vec![
            row.case.clone(),
            fixed(ratio.tokens, 3),
            fixed(ratio.critical, 2),
            fixed(figures.in_flight, 1),
            fixed(figures.preemptions, 0),
            fixed(1000.0 * figures.tpot, 0),
            unstarted,
            tokens,
            slots,
            if ratio.is_met() { "yes" } else { "NO" }.to_owned(),
        ]
    };
    table(f, title, &heads, each(rows, row))
}

fn summary(f: &mut Formatter<'_>, all: &[Summary]) -> Result {
    let heads =
        ["stock", "tokens min", "mean", "critical p99 mean", "max", "where", "both", "share"];
    let row = |one: &Summary| {
        let Spread { cases, met, .. } = one.spread;
        let mut cells = vec![one.stock.to_owned()];
        cells.extend(spread(&one.spread));
        cells.push(one.spread.critical_max_case.clone());
        cells.push(format!("{met} of {cases}"));
        cells.push(format!("{:.0} %", 100.0 * met as f64 / cases.max(1) as f64));
        cells
    };
    table(f, "All cases, over the best fixed", &heads, each(all, row))?;
    if all.is_empty() {
        return Ok(());
    }
    writeln!(
        f,
        "Both: tokens at least {KEEP} and critical p99 at most {EXCEED} of the best fixed \
         watermark's; the goal with metrics is {:.0} % of the cases.\n",
        100.0 * GOAL
    )
}

fn robust(f: &mut Formatter<'_>, all: &[Robust]) -> Result {
    let heads = [
        "condition",
        "with: tokens min",
        "mean",
        "critical mean",
        "max",
        "without: tokens min",
        "mean",
        "critical mean",
        "max",
    ];
    let row = |one: &Robust| {
        let mut cells = vec![one.condition.to_owned()];
        cells.extend(spread(&one.metrics));
        match &one.blind {
            Some(blind) => cells.extend(spread(blind)),
            None => cells.extend(vec![number(None, 0); 4]),
        }
        cells
    };
    table(f, "Other conditions, over the same watermark", &heads, each(all, row))
}

fn mixed(f: &mut Formatter<'_>, report: &Report) -> Result {
    let heads = ["stock", "tokens", "critical p99 s"];
    let row =
        |one: &super::Mixed| vec![one.stock.clone(), fixed(one.tokens, 3), fixed(one.critical, 2)];
    let title = "Four unlike engines behind one queue, over the sum of each alone";
    table(f, title, &heads, each(&report.mixed, row))
}

fn ramps(f: &mut Formatter<'_>, all: &[Ramp]) -> Result {
    let heads = ["case", "watermark", "with metrics", "without"];
    let row = |one: &Ramp| {
        let told = |grown: [u32; 4]| grown.map(|count| count.to_string()).join(" / ");
        vec![one.case.clone(), one.watermark.to_string(), told(one.metrics), told(one.blind)]
    };
    let title = "In flight 1 / 3 / 10 / 20 s after a full queue met an empty engine";
    table(f, title, &heads, each(all, row))
}

fn collapses(f: &mut Formatter<'_>, report: &Report) -> Result {
    if report.summary.is_empty() && report.robust.is_empty() {
        return Ok(());
    }
    let mut found = Vec::new();
    for summary in report.summary.iter().take(2) {
        found.extend(collapsed(summary.stock, &summary.spread));
    }
    for robust in &report.robust {
        found.extend(collapsed(&format!("{}, with metrics", robust.condition), &robust.metrics));
        let blind = robust.blind.iter();
        found.extend(blind.filter_map(|blind| {
            collapsed(&format!("{}, without metrics", robust.condition), blind)
        }));
    }
    if found.is_empty() {
        return writeln!(f, "auto never gives less than {COLLAPSE} of the fixed watermark.");
    }
    writeln!(f, "auto gives less than {COLLAPSE} of the fixed watermark:")?;
    found.iter().try_for_each(|line| writeln!(f, "- {line}"))
}

fn collapsed(what: &str, spread: &Spread) -> Option<String> {
    let Spread { tokens_min, tokens_min_case, .. } = spread;
    (*tokens_min < COLLAPSE).then(|| format!("{what}: {tokens_min:.2} on {tokens_min_case}"))
}

fn spread(spread: &Spread) -> [String; 4] {
    let Spread { tokens_min, tokens_mean, critical_mean, critical_max, .. } = spread;
    [
        fixed(*tokens_min, 3),
        fixed(*tokens_mean, 3),
        fixed(*critical_mean, 2),
        fixed(*critical_max, 2),
    ]
}

fn each<T>(items: &[T], row: impl Fn(&T) -> Vec<String>) -> Vec<Vec<String>> {
    items.iter().map(row).collect()
}

fn fixed(value: f64, decimals: usize) -> String {
    number(Some(value), decimals)
}
