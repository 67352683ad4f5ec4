//! The traces that the project is measured with, where they are at hand, against what their
//! collection says of them.

use super::super::{Trace, TraceRow};
use crate::measure::nearest_rank;
use crate::recorded::recorded;

/// The known figures of one trace. Token counts are mean, p50 and p99.
struct Known {
    file: &'static str,
    rows: usize,
    secs: f64,
    clients: usize,
    top_share: f64,
    prompt: [f64; 3],
    output: [f64; 3],
}

const KNOWN: &[Known] = &[
    Known {
        file: "azure_llm_2023_conv.csv",
        rows: 19_366,
        secs: 3502.0,
        clients: 1,
        top_share: 1.0,
        prompt: [1155.0, 1020.0, 4142.0],
        output: [211.0, 129.0, 601.0],
    },
    Known {
        file: "mooncake_synthetic.jsonl",
        rows: 3993,
        secs: 1022.0,
        clients: 1,
        top_share: 1.0,
        prompt: [15325.0, 11587.0, 66458.0],
        output: [149.0, 69.0, 769.0],
    },
    Known {
        file: "vtc_lmsys_arena_clients.csv",
        rows: 1500,
        secs: 600.0,
        clients: 27,
        top_share: 0.20,
        prompt: [136.0, 40.0, 929.0],
        output: [256.0, 211.0, 785.0],
    },
    Known {
        file: "servegen_m-small_20min.csv",
        rows: 24_038,
        secs: 1200.0,
        clients: 16,
        top_share: 0.0,
        prompt: [124.0, 51.0, 1331.0],
        output: [19.0, 4.0, 145.0],
    },
    Known {
        file: "servegen_m-large_20min.csv",
        rows: 24_202,
        secs: 1200.0,
        clients: 40,
        top_share: 0.78,
        prompt: [748.0, 644.0, 2610.0],
        output: [46.0, 33.0, 488.0],
    },
];

/// A trace of the collection, or none where the collection is not here.
fn trace(file: &str) -> Option<Trace> {
    let text = recorded(file)?;
    Some(Trace::parse(&text).unwrap_or_else(|error| panic!("{file}: {error}")))
}

fn assert_known(known: &Known, trace: &Trace) {
    let file = known.file;
    let near = |found: f64, wanted: f64, slack: f64, what: &str| {
        assert!((found - wanted).abs() <= slack, "{file}: {what} {found}, known as {wanted}");
    };
    assert_eq!((trace.rows.len(), trace.clients.len()), (known.rows, known.clients), "{file}");
    let span = trace.rows.last().unwrap().at.since(flow::Time::ZERO);
    near(span.secs_f64(), known.secs, 2.0, "span");
    if known.top_share > 0.0 {
        let of = |client: u32| trace.rows.iter().filter(|row| row.client == client).count();
        let top = (0..known.clients as u32).map(of).max().unwrap();
        near(top as f64 / known.rows as f64, known.top_share, 0.005, "top share");
    }
    let tokens = |pick: fn(&TraceRow) -> u32| trace.rows.iter().map(pick).collect::<Vec<_>>();
    let pairs = [
        ("prompt", tokens(|row| row.prompt), known.prompt),
        ("output", tokens(|row| row.output), known.output),
    ];
    for (what, mut tokens, wanted) in pairs {
        tokens.sort_unstable();
        let mean = tokens.iter().map(|&count| f64::from(count)).sum::<f64>() / tokens.len() as f64;
        let rank = |per_mille| f64::from(nearest_rank(&tokens, per_mille).unwrap());
        let found = [mean, rank(500), rank(990)];
        // Known figures are rounded, and known percentiles may lie one row further up.
        for ((found, wanted), slack) in found.into_iter().zip(wanted).zip([0.0, 0.01, 0.03]) {
            near(found, wanted, 0.51 + wanted * slack, what);
        }
    }
}

#[test]
fn the_collected_traces_are_as_they_are_described() {
    for known in KNOWN {
        if let Some(trace) = trace(known.file) {
            assert_known(known, &trace);
        }
    }
}

#[test]
fn the_collected_conversations_come_a_little_burstier_than_by_chance() {
    if let Some(trace) = trace("azure_llm_2023_conv.csv") {
        let gaps: Vec<f64> =
            trace.rows.windows(2).map(|pair| pair[1].at.since(pair[0].at).secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| gap * gap).sum::<f64>() / gaps.len() as f64;
        let cv = (square - mean * mean).sqrt() / mean;
        assert!((cv - 1.09).abs() < 0.006, "{cv}");
    }
}

#[test]
fn the_collected_prompts_are_covered_by_their_segments() {
    if let Some(trace) = trace("mooncake_synthetic.jsonl") {
        let covered = |row: &TraceRow| row.prefix.len() as u32 == row.prompt.div_ceil(512);
        assert!(trace.rows.iter().all(covered));
        let shared = trace.rows.windows(2).filter(|pair| pair[0].prefix[0] == pair[1].prefix[0]);
        assert!(shared.count() > 0, "some neighbours begin alike");
    }
}
