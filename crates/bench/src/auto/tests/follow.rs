//! What is found, and what is followed when it changes.

use flow::Time;

use super::*;

#[test]
fn c10_auto_reaches_the_best_fixed_watermark_where_memory_binds() {
    for workload in ["chat", "essays"] {
        let known = known("rtx4090-8b", workload);
        let [seen, unseen] = beside(&known, &known.run(LOAD, (40, 160)));
        assert!(seen.tokens >= 0.95 && seen.critical <= 2.0, "with metrics: {seen:?}");
        assert!(unseen.tokens >= 0.9 && unseen.critical <= 3.0, "without: {unseen:?}");
    }
}

#[test]
fn c10_auto_reaches_the_best_fixed_watermark_where_slots_or_arithmetic_bind() {
    for (engine, workload) in
        [("pro6000-8b", "chat"), ("pro6000-8b", "essays"), ("ollama-4", "chat")]
    {
        let known = known(engine, workload);
        let [seen, unseen] = beside(&known, &known.run(LOAD, (40, 160)));
        assert!(seen.tokens >= 0.95 && seen.critical <= 1.2, "with metrics: {seen:?}");
        assert!(unseen.tokens >= 0.9 && unseen.critical <= 1.5, "without: {unseen:?}");
    }
}

#[test]
fn c10_auto_follows_a_slow_down_and_recovers() {
    for engine in ["rtx4090-8b", "pro6000-8b"] {
        let known = known(engine, "essays");
        for window in [(230, 300), (430, 500)] {
            let [seen, unseen] = beside(&known, &conditions::slow(&known, window));
            assert!(seen.tokens >= 0.9 && seen.critical <= 2.5, "with metrics: {seen:?}");
            assert!(unseen.tokens >= 0.85 && unseen.critical <= 3.0, "without: {unseen:?}");
        }
    }
}

#[test]
fn c10_auto_follows_a_shift_of_workload() {
    for engine in ["rtx4090-8b", "pro6000-8b"] {
        let (before, after) = (known(engine, "essays"), known(engine, "chat"));
        for (known, other) in [(&after, &before), (&before, &after)] {
            let [seen, unseen] = beside(known, &conditions::shift(known, other, (230, 330)));
            assert!(seen.tokens >= 0.9 && seen.critical <= 2.5, "with metrics: {seen:?}");
            assert!(unseen.tokens >= 0.85 && unseen.critical <= 3.0, "without: {unseen:?}");
        }
    }
}

#[test]
fn c10_auto_does_not_collapse_when_metrics_vanish() {
    for (engine, workload) in [("rtx4090-8b", "essays"), ("pro6000-8b", "chat")] {
        let known = known(engine, workload);
        let [lost, _] = beside(&known, &conditions::vanish(&known, (200, 320)));
        assert!(lost.tokens >= 0.9 && lost.critical <= 3.0, "{lost:?}");
    }
}

/// Requests that have their first token after one second and after three.
fn started(known: &Known, stock: Stock) -> [usize; 2] {
    let history = ramp::flood(known, stock, SEED).history(Span::ZERO).unwrap();
    [1000, 3000].map(|millis| {
        let until = Time::from_millis(millis);
        history.records.iter().filter(|record| record.first <= until).count()
    })
}

#[test]
fn c10_auto_ramps_at_the_engines_own_prefill_speed() {
    for engine in ["rtx4090-8b", "pro6000-8b"] {
        let known = known(engine, "chat");
        // What is all in the engine at once is prefilled as fast as the engine can.
        let flat_out = started(&known, Stock::Fixed(1000.0));
        let ours = started(&known, Stock::Auto);
        for (ours, flat_out) in ours.into_iter().zip(flat_out) {
            let share = ours as f64 / flat_out as f64;
            assert!(share >= 0.8, "seed {SEED}, {engine}: {ours} of {flat_out} have started");
        }
        let ramp = ramp::ramp(&known, SEED).unwrap();
        assert!(ramp.metrics[2] >= known.knee.watermark, "seed {SEED}: {ramp:?}");
    }
}
