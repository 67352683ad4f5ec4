//! `auto` keeps up with the best fixed watermark, and with everything that changes under it (C10).
//!
//! Lengths are drawn, so that these tests need no files; recorded traffic has a test of its own.
//! Margins are wider than what the study finds: these tests notice a law that is broken, the study
//! one that is worse.

mod follow;
mod recorded;
mod shape;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use flow::Span;
use sim::arrivals::Lengths;
use sim::engine::Profile;

use super::case::{Case, Known, LOAD};
use super::report::Ratio;
use super::robust::ratios;
use super::run::{Run, Stock};
use super::{Effort, conditions, ramp};

/// Short runs on one seed, which is none of those that `auto` was tuned on.
const SEED: u64 = 11;

fn effort() -> Effort {
    Effort { window: (40, 160), seeds: vec![SEED] }
}

/// Like a chat with long prompts: arithmetic binds.
fn chat() -> Lengths {
    Lengths::Lognormal { prompt_mean: 800.0, prompt_cv: 1.0, output_mean: 60.0, output_cv: 1.0 }
}

/// Short questions and long answers: memory or slots bind.
fn essays() -> Lengths {
    Lengths::Lognormal { prompt_mean: 150.0, prompt_cv: 1.0, output_mean: 300.0, output_cv: 0.8 }
}

fn case(engine: &str, workload: &str) -> Case {
    let lengths = if workload == "chat" { chat() } else { essays() };
    let engine = Profile::named(engine).unwrap();
    Case { engine, workload: workload.to_owned(), lengths }
}

/// The cases that tests share, each looked at once.
fn known(engine: &str, workload: &str) -> Known {
    static KNOWN: OnceLock<BTreeMap<String, Known>> = OnceLock::new();
    let all = KNOWN.get_or_init(|| {
        let pairs = ["rtx4090-8b", "pro6000-8b"].into_iter().flat_map(|engine| {
            ["chat", "essays"].into_iter().map(move |workload| case(engine, workload))
        });
        let pairs = pairs.chain([case("ollama-4", "chat")]);
        pairs.map(|case| (case.name(), case.know(&effort()).unwrap())).collect()
    });
    all[&format!("{engine}/{workload}")].clone()
}

/// `auto` with and without metrics over the best fixed watermark in this run.
fn beside(known: &Known, run: &Run) -> [Ratio; 2] {
    let both = ratios(known, run, &effort()).unwrap();
    eprintln!("seed {SEED}, watermark {}: {both:?}", known.knee.watermark);
    both
}
