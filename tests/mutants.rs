//! Negative controls: the suite must notice when the core is broken.
//!
//! Each mutant is one substitution in a copy of `crates/flow`; the tests named for it must then
//! fail. A substitution that no longer fits the code fails this test too, so the table cannot rot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One way to break the core.
struct Mutant {
    name: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
    /// A filter for the tests that must notice.
    noticed_by: &'static str,
}

const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "no lift: a flow that was away keeps its old tag",
        file: "queue/virtual_clock.rs",
        from: "} else { tag.max(self.now) };",
        to: "} else { tag };",
        noticed_by: "fairness::q06_idle_flows",
    },
    Mutant {
        name: "newcomers start at once: a flood of fresh names starves its neighbours",
        file: "queue/virtual_clock.rs",
        from: "if newcomer { self.now + weight.stretch(cost) }",
        to: "if newcomer { self.now + 0 * weight.stretch(cost) }",
        noticed_by: "fairness::q06_a_f",
    },
    Mutant {
        name: "a grant that is given up costs nothing",
        file: "controller/complete.rs",
        from: "self.finish(slot, now);\n        Ok(Stage::InFlight)",
        to: "self.recharge(slot, 0);\nself.finish(slot, now);\nOk(Stage::InFlight)",
        noticed_by: "fairness::q06_grants",
    },
    Mutant {
        name: "refunds from before a flow waited are credit",
        file: "controller/complete.rs",
        from: "difference < 0 && flow_queue.active",
        to: "difference == i64::MIN && flow_queue.active",
        noticed_by: "fairness::q06_over",
    },
    Mutant {
        name: "bands are refunded what they were charged before they came back",
        file: "queue/hierarchy.rs",
        from: "        if charge < 0 {",
        to: "        if charge == i128::MIN {",
        noticed_by: "p04_over",
    },
    Mutant {
        name: "an idle backend does not open its pool",
        file: "supply.rs",
        from: "empty > 0 || stock <",
        to: "empty == u64::MAX || stock <",
        noticed_by: "c07_an_idle_backend",
    },
    Mutant {
        name: "no true-up",
        file: "queue/virtual_clock.rs",
        from: "        self.bounded(moved)",
        to: "        self.bounded(if true { tag } else { moved })",
        noticed_by: "fairness::q04",
    },
    Mutant {
        name: "true-up without refunds",
        file: "queue/virtual_clock.rs",
        from: "if difference < 0 { tag.saturating_sub(step) }",
        to: "if difference < 0 { tag }",
        noticed_by: "fairness::q04",
    },
    Mutant {
        name: "no idle rule: old service is held against a flow",
        file: "queue/virtual_clock.rs",
        from: "self.now = self.now.max(self.tag_max);",
        to: "",
        noticed_by: "fairness::q06_old_service",
    },
    Mutant {
        name: "comparator: the largest tag goes first",
        file: "queue/fair_queue.rs",
        from: "entry(self.tag, self.tie_break, self.flow_queue)",
        to: "entry(!self.tag, self.tie_break, self.flow_queue)",
        noticed_by: "fairness::q03",
    },
    Mutant {
        name: "weights ignored",
        file: "weight.rs",
        from: "u64::from(cost) * u64::from(self.inverse)",
        to: "u64::from(cost) * u64::from(self.inverse.min(1) * (1 << 24))",
        noticed_by: "fairness::q03",
    },
    Mutant {
        name: "costs ignored",
        file: "queue/virtual_clock.rs",
        from: "self.bounded(tag + weight.stretch(cost))",
        to: "self.bounded(tag + weight.stretch(cost.min(1)))",
        noticed_by: "fairness::q03",
    },
    Mutant {
        name: "streams past their estimate are charged only at the end",
        file: "controller/complete.rs",
        from: "self.recharge(slot, charged.max(cost.min(COST_MAX) as u32));",
        to: "let _ = (slot, charged, cost);",
        noticed_by: "fairness::q04_a_long_stream",
    },
    Mutant {
        name: "credit hoarded at a limit",
        file: "queue/virtual_clock.rs",
        from: "        tag.max(self.now)\n",
        to: "        tag\n",
        noticed_by: "limits::p09_no_credit",
    },
    Mutant {
        name: "band inversion",
        file: "controller/dispatch.rs",
        from: "self.fair_queues[pool as usize].iter().rev()",
        to: "self.fair_queues[pool as usize].iter()",
        noticed_by: "p03_strict_bands",
    },
    Mutant {
        name: "expired asks are granted",
        file: "controller/dispatch.rs",
        from: "self.asks[slot].deadline <= now",
        to: "self.asks[slot].deadline < Time::ZERO",
        noticed_by: "q08_an_expired_ask",
    },
    Mutant {
        name: "newcomers overtake those who wait",
        file: "controller/admit.rs",
        from: "self.domains[domain as usize].waiting > 0 && self.any_could_go(domain, room)",
        to: "self.domains[domain as usize].waiting == u32::MAX && self.any_could_go(domain, room)",
        noticed_by: "c03_bypass",
    },
    Mutant {
        name: "stale urgency: the wait is not counted",
        file: "queue/urgency.rs",
        from: "urgency(weights, now.since(head.arrival), head.criticality, rate)",
        to: "urgency(weights, now.since(now.max(head.arrival)), head.criticality, rate)",
        noticed_by: "w03_the_order_is_exact",
    },
    Mutant {
        name: "stale urgency: rates are not rolled forward",
        file: "workload.rs",
        from: "        if rate.bucket != bucket {",
        to: "        if rate.bucket == u64::MAX {",
        noticed_by: "w0",
    },
    Mutant {
        name: "the oldest ask is preempted",
        file: "queue/ordered_asks.rs",
        from: "Self::Fifo(fifo) => fifo.tail(),",
        to: "Self::Fifo(fifo) => fifo.head(),",
        noticed_by: "p06",
    },
    Mutant {
        name: "preemption always hits the same flow",
        file: "queue/eviction.rs",
        from: "self.stamp_last += 1;",
        to: "self.stamp_last += 0;",
        noticed_by: "p06",
    },
    Mutant {
        name: "rebasing forgets the flow_queues",
        file: "controller/dispatch.rs",
        from: "flow_queue.tag.saturating_sub(shift)",
        to: "flow_queue.tag.saturating_sub(shift / 2)",
        noticed_by: "range::q10",
    },
    Mutant {
        name: "a bypass is charged to its pool without its own weight",
        file: "controller/dispatch.rs",
        from: "let own = if active { 0 } else { u64::from(weight.units) };",
        to: "let own = if active || weight.units > 0 { 0 } else { 1 };",
        noticed_by: "c07_a_bypass",
    },
    Mutant {
        name: "credit hoarded at doors without room",
        file: "controller/dispatch.rs",
        from: "flow_queue.tag = flow_queue.tag.max(fair_queue.clock.now());",
        to: "",
        noticed_by: "p09_no_credit",
    },
    Mutant {
        name: "a release opens a door past a limit that shrank",
        file: "controller/eligibility.rs",
        from: "let opens = per_backend && self.flows.may_use(flow, backend);",
        to: "let opens = per_backend;",
        noticed_by: "p09_a_shrunken",
    },
    Mutant {
        name: "names are kept whole",
        file: "controller.rs",
        from: "name.floor_char_boundary(NAME_MAX)",
        to: "name.len()",
        noticed_by: "long_names",
    },
    Mutant {
        name: "a rebuild forgets who leads",
        file: "controller/reconfigure.rs",
        from: "self.flow_queues[at].tag = self.flow_queues[at].tag.max(tag);",
        to: "self.flow_queues[at].tag = self.flow_queues[at].tag.max(tag.min(now));",
        noticed_by: "c07_a_new_shape_keeps_leads",
    },
    Mutant {
        name: "a completion wakes nobody",
        file: "controller/complete.rs",
        from: "        self.dispatch(domain, now);\n        if let Some",
        to: "        let _ = domain;\n        if let Some",
        noticed_by: "c04",
    },
    Mutant {
        name: "stock leaks on cancel",
        file: "controller/complete.rs",
        from: "let stock = record.stock(self.settings.stock);",
        to: "let stock = record.stock(self.settings.stock).min(u64::from(record.cost > 0));",
        noticed_by: "c01",
    },
    Mutant {
        name: "auto forgets what has not started",
        file: "auto.rs",
        from: "unstarted_prompt < PROMPT_ALLOWANCE && unstarted < self.proven",
        to: "unstarted_prompt < u64::MAX",
        noticed_by: "c10_no_more",
    },
    Mutant {
        name: "auto sends a whole burst to an engine it does not know",
        file: "auto.rs",
        from: "unstarted_prompt < PROMPT_ALLOWANCE && unstarted < self.proven",
        to: "unstarted_prompt < PROMPT_ALLOWANCE",
        noticed_by: "c10_a_burst",
    },
    Mutant {
        name: "auto forgets the KV cache",
        file: "auto.rs",
        from: "if self.tally.tokens as f64 >= self.caps.tokens {",
        to: "if self.tally.tokens as f64 >= f64::INFINITY.max(self.caps.tokens) {",
        noticed_by: "c10_tokens",
    },
    Mutant {
        name: "a first token frees nothing",
        file: "auto.rs",
        from: "        self.tally.unstarted -= 1;\n\
             \x20       self.tally.unstarted_prompt -= progress.prompt;\n        self.caps",
        to: "        self.caps",
        noticed_by: "c10_no_more",
    },
    Mutant {
        name: "a batch that grows is taken for a standing queue",
        file: "auto/metrics.rs",
        from: "running <= queue.running && running.saturating_add(1)",
        to: "running.saturating_add(1)",
        noticed_by: "c10_a_backlog",
    },
    Mutant {
        name: "bounds grow without demand",
        file: "auto/metrics.rs",
        from: "} else if binding.on(AutoBound::Tokens)\n",
        to: "} else if !binding.on(AutoBound::Slots)\n",
        noticed_by: "c10_nothing_grows",
    },
    Mutant {
        name: "streams that slow down together count as stalled",
        file: "auto/streams.rs",
        from: "missed && now.since(mark.moved) > STALL",
        to: "now.since(mark.moved) > STALL || missed && false",
        noticed_by: "c10_all_streams",
    },
    Mutant {
        name: "an ask that does not stream never starts",
        file: "controller/evict.rs",
        from: "Phase::InFlight => self.mark_started(slot, false, now),",
        to: "Phase::InFlight => { self.wheel.remove(slot, &mut self.asks); \
             self.progress[slot as usize].deadline = None }",
        noticed_by: "c10_asks_that",
    },
    Mutant {
        name: "a boost is a constant for every backend",
        file: "route/weights.rs",
        from: "RATE_AT_ZERO * (-boost / BOOST_TO_HALVE).exp2()",
        to: "RATE_AT_ZERO * (0.0 * boost / BOOST_TO_HALVE).exp2()",
        noticed_by: "r02_each_band",
    },
    Mutant {
        name: "the preference of an ask that waits is forgotten",
        file: "controller/routing.rs",
        from: "record.has_preference.then(",
        to: "(!record.has_preference).then(",
        noticed_by: "r05_a_wish",
    },
    Mutant {
        name: "batch work begins while others are about to",
        file: "start_limiter.rs",
        from: "0 => StartAllowance::Busy,",
        to: "0 => StartAllowance::Allowed(1),",
        noticed_by: "start_limiter::d02_nothing_begins",
    },
    Mutant {
        name: "the start limiter never rests",
        file: "start_limiter.rs",
        from: "self.opens_at = now.after(self.rest_after(0));",
        to: "self.opens_at = now;\nlet _ = self.rest_after(0);",
        noticed_by: "start_limiter::d02_one_begins",
    },
    Mutant {
        name: "the start limiter holds back for nobody's sake",
        file: "start_limiter.rs",
        from: "self.others_at.is_none_or(|at| now.since(at) > QUIET)",
        to: "self.others_at.is_none_or(|at| now.since(at) > REST_MAX.max(QUIET)) && false",
        noticed_by: "start_limiter::d02_without_others",
    },
    Mutant {
        name: "a budget forgets what it sent since the reading",
        file: "budget.rs",
        from: "by_reading = self.part().saturating_add(shown).saturating_sub(held);",
        to: "by_reading = self.part().saturating_add(shown.max(held)).saturating_sub(held);",
        noticed_by: "budget::",
    },
];

/// The manifest of the copy, which stands alone.
const MANIFEST: &str = r#"
[workspace]

[package]
name = "flow"
version = "0.1.0"
edition = "2024"

[dev-dependencies]
proptest = { version = "1.12", default-features = false, features = ["std"] }

[profile.dev]
opt-level = 1
debug = false
"#;

#[test]
fn every_mutant_is_noticed() {
    let workbench = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    let mut survivors = Vec::new();
    copy_core(&workbench);
    assert!(suite_passes(&workbench, "fairness::q05"), "the copy must pass before it is broken");
    for mutant in MUTANTS {
        let noticed =
            with_mutation(&workbench, mutant, || !suite_passes(&workbench, mutant.noticed_by));
        eprintln!("{} {}", if noticed { "noticed " } else { "SURVIVED" }, mutant.name);
        if !noticed {
            survivors.push(mutant.name);
        }
    }
    assert!(survivors.is_empty(), "nobody noticed: {survivors:#?}");
}

fn copy_core(workbench: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let _ = fs::remove_dir_all(workbench.join("src"));
    copy_tree(&root.join("crates/flow/src"), &workbench.join("src"));
    fs::copy(root.join("Cargo.lock"), workbench.join("Cargo.lock")).unwrap();
    fs::write(workbench.join("Cargo.toml"), MANIFEST).unwrap();
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn with_mutation(workbench: &Path, mutant: &Mutant, run: impl FnOnce() -> bool) -> bool {
    let path = workbench.join("src").join(mutant.file);
    let original = fs::read_to_string(&path).unwrap();
    let count = original.matches(mutant.from).count();
    assert_eq!(count, 1, "{}: the code to break must stand once in {}", mutant.name, mutant.file);
    fs::write(&path, original.replace(mutant.from, mutant.to)).unwrap();
    let noticed = run();
    fs::write(&path, original).unwrap();
    noticed
}

/// Builds the copy, which must succeed, and runs the tests that match `filter`.
fn suite_passes(workbench: &Path, filter: &str) -> bool {
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(workbench).args(["test", "--lib", "--quiet"]).args(arguments);
        command.env("CARGO_TARGET_DIR", workbench.join("target"));
        command.env("PROPTEST_MAX_SHRINK_ITERS", "0").env("RUST_BACKTRACE", "0");
        command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
        command.output().unwrap()
    };
    let built = cargo(&["--no-run"]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let ran = cargo(&[filter]);
    let output = String::from_utf8_lossy(&ran.stdout);
    assert!(!output.contains("running 0 tests"), "no test matches {filter}");
    ran.status.success()
}
