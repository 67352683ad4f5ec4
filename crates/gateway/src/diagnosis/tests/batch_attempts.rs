//! Batch queues whose attempts fail.

use std::collections::BTreeMap;

use super::super::situation::BatchAttempts;
use super::*;

fn attempts(served: u64, failed: &[(&str, u64)], dead: u64) -> BatchAttempts {
    let failed = failed.iter().map(|(reason, count)| ((*reason).to_owned(), *count));
    BatchAttempts { served, failed: failed.collect(), dead }
}

fn of(attempts: BatchAttempts) -> Situation {
    let queue = BatchQueueState { name: "night".into(), attempts, ..BatchQueueState::default() };
    Situation { batch_queues: vec![queue], ..well() }
}

fn failing(page: &StatusPage) -> Option<&StatusFinding> {
    page.findings.iter().find(|finding| finding.id == "batch_requests_fail")
}

#[test]
fn m03_a_batch_queue_is_judged_by_the_attempts_of_the_last_minute() {
    let mut trends = Trends::default();
    let all = attempts(2, &[("status 404", 7), ("deadline exceeded", 2)], 1);
    let page = trends.judge(of(all.clone()), at(1));
    let finding = failing(&page).unwrap();
    let told = "9 of 11 attempts of the batch queue night failed in the last minute: \
                7 status 404, 2 deadline exceeded (1 new dead letter)";
    assert_eq!((finding.text.as_str(), finding.level), (told, Level::Trouble));
    assert!(page.sentence.starts_with("9 of 11 attempts"), "{}", page.sentence);
    let later: Vec<StatusPage> =
        (2..70).map(|at_| trends.judge(of(all.clone()), at(at_))).collect();
    assert!(failing(&later[67]).is_none(), "nothing fails any more");
    let more = attempts(9, &[("status 404", 12), ("deadline exceeded", 2)], 1);
    let page = trends.judge(of(more), at(70));
    assert!(failing(&page).is_none(), "5 of 12 failed");
    assert_eq!(
        page.situation.batch_queues[0].attempts_last_minute.failed,
        BTreeMap::from([("status 404".to_owned(), 5)])
    );
}

#[test]
fn m03_one_failure_that_another_attempt_mends_is_no_finding() {
    let mut trends = Trends::default();
    let one = || attempts(0, &[("status 500", 1)], 0);
    assert!(failing(&trends.judge(of(one()), at(1))).is_none());
    assert_eq!(failing(&trends.judge(of(one()), at(7))).unwrap().level, Level::Warning);
    let mended = BatchAttempts { served: 1, ..one() };
    assert!(failing(&trends.judge(of(mended), at(8))).is_none());
}
