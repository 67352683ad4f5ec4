//! A reduced study on recorded traffic, where that is at hand.

use std::path::Path;

use super::*;
use crate::auto::main_table;
use crate::auto::workloads::Workloads;

#[test]
fn c10_auto_reaches_the_best_fixed_watermark_on_recorded_traffic() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces"));
    if !folder.exists() {
        eprintln!("skipped: there are no traces in {}", folder.display());
        return;
    }
    let workloads = Workloads::read(folder).unwrap();
    for engine in ["rtx4090-8b", "pro6000-8b"] {
        for workload in ["conv", "m-large"] {
            let known = workloads.case(engine, workload).unwrap().know(&effort()).unwrap();
            let row = main_table::row(&known, &effort()).unwrap();
            let best = &row.knee.figures;
            let seen = Ratio::of(row.case.clone(), &row.metrics, best);
            let unseen = Ratio::of(row.case.clone(), &row.blind, best);
            eprintln!("seed {SEED}: {seen:?}, {unseen:?}");
            assert!(seen.tokens >= 0.9 && seen.critical <= 2.0, "with metrics: {seen:?}");
            assert!(unseen.tokens >= 0.7, "without metrics: {unseen:?}");
        }
    }
}
