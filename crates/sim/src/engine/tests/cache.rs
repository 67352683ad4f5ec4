//! The prefix cache: what is found again, what is shared, what is forgotten first.

use flow::Time;

use super::super::{BatchShape, Engine, JobId};
use super::{assert_close, batch, drain, engine, job, ms, prefixed, small, step};

fn roomy() -> BatchShape {
    BatchShape { kv_tokens: 16 * 201, max_batched_tokens: 4096, max_len: 4096, ..small() }
}

/// Runs one job alone; the prompt tokens it found in the cache.
fn hits_of(engine: &mut Engine, id: u32, prompt: u32, prefix: &[u64]) -> u64 {
    let before = engine.prefix_hits().0;
    engine.submit(prefixed(id, prompt, prefix), Time::ZERO).unwrap();
    drain(engine);
    engine.prefix_hits().0 - before
}

#[test]
fn a_prompt_seen_before_is_found_but_for_its_last_token() {
    let mut engine = engine(roomy());
    assert_eq!(hits_of(&mut engine, 1, 1024, &[7, 8]), 0);
    assert_eq!(hits_of(&mut engine, 2, 1024, &[7, 8]), 1008, "the last block is computed again");
    assert_eq!(hits_of(&mut engine, 3, 1025, &[7, 8]), 1024);
    assert_eq!(hits_of(&mut engine, 4, 2000, &[7, 8, 9]), 1024);
    assert_eq!(engine.prefix_hits().1, 1024 + 1024 + 1025 + 2000);
}

#[test]
fn only_whole_blocks_of_equal_text_after_equal_text_are_found() {
    let mut engine = engine(BatchShape { kv_tokens: 16 * 1001, ..roomy() });
    assert_eq!(hits_of(&mut engine, 1, 700, &[7, 8]), 0);
    assert_eq!(hits_of(&mut engine, 2, 700, &[7, 8]), 688, "43 whole blocks of 700 tokens");
    assert_eq!(hits_of(&mut engine, 3, 700, &[7, 9]), 512);
    assert_eq!(hits_of(&mut engine, 4, 700, &[6, 8]), 0, "the same text after another is other");
    assert_eq!(hits_of(&mut engine, 9, 700, &[5, 9]), 0);
    assert_eq!(hits_of(&mut engine, 10, 700, &[5, 8]), 512, "likewise where the first is known");
    assert_eq!(hits_of(&mut engine, 5, 700, &[]), 0);
    assert_eq!(hits_of(&mut engine, 6, 700, &[]), 0, "what has no name is not shared");
    assert_eq!(hits_of(&mut engine, 7, 700, &[7]), 512);
    assert_eq!(hits_of(&mut engine, 8, 700, &[7]), 512, "the part without a name is not shared");
}

#[test]
fn generated_text_is_no_prefix_of_another_prompt() {
    let mut engine = engine(roomy());
    let mut writer = prefixed(1, 40, &[7]);
    writer.output = 200;
    engine.submit(writer, Time::ZERO).unwrap();
    drain(&mut engine);
    assert_eq!(hits_of(&mut engine, 2, 130, &[7]), 32, "two whole blocks of a prompt of 40");
}

#[test]
fn a_found_prompt_costs_less_time() {
    let mut engine = engine(roomy());
    engine.submit(prefixed(1, 1000, &[7, 8]), Time::ZERO).unwrap();
    assert_eq!(engine.next_event(), Some(ms(1010)));
    step(&mut engine);
    engine.submit(prefixed(2, 1000, &[7, 8]), ms(2000)).unwrap();
    assert_eq!(engine.next_event(), Some(ms(2000 + 10 + 1000 - 992)));
}

#[test]
fn running_jobs_share_the_blocks_of_a_common_beginning() {
    let mut engine = engine(roomy());
    for id in 0..4 {
        let mut job = prefixed(id, 512 + 16, &[7]);
        job.output = 3;
        engine.submit(job, Time::ZERO).unwrap();
    }
    step(&mut engine);
    assert_eq!(engine.prefix_hits().0, 3 * 512);
    let used = (engine.reading().kv_used * 200.0).round();
    assert_eq!(used, 32.0 + 1.0 + 1.0 + 3.0, "shared; the first with its output; three own ones");
    assert!(engine.abort(JobId(0), ms(600)));
    let used = (engine.reading().kv_used * 200.0).round();
    assert_eq!(used, 32.0 + 3.0, "what others use stays");
    drain(&mut engine);
    assert_eq!(engine.reading().kv_used, 0.0);
}

#[test]
fn the_least_recently_used_blocks_are_evicted_first_and_ends_before_beginnings() {
    let mut engine = engine(roomy());
    hits_of(&mut engine, 1, 1024, &[1, 2]);
    hits_of(&mut engine, 2, 1024, &[3, 4]);
    // 72 blocks were never used; 82 more than that take 10 of the first prompt.
    hits_of(&mut engine, 3, 16 * 82, &[]);
    assert_eq!(hits_of(&mut engine, 4, 1024, &[1, 2]), 1024 - 160);
    let mut engine = self::engine(roomy());
    hits_of(&mut engine, 1, 1024, &[1, 2]);
    hits_of(&mut engine, 2, 1024, &[3, 4]);
    hits_of(&mut engine, 3, 16 * 82, &[]);
    assert_eq!(hits_of(&mut engine, 4, 1024, &[3, 4]), 1008, "the later one is whole");
}

#[test]
fn a_preempted_job_finds_its_unevicted_blocks_again() {
    let mut engine = engine(BatchShape { max_batched_tokens: 1000, ..small() });
    engine.submit(job(1, 64, 18), Time::ZERO).unwrap();
    engine.submit(job(2, 64, 18), Time::ZERO).unwrap();
    // Ten blocks, five for each. For its 18th token the first needs a sixth and throws the second
    // back; it takes the last of that one's blocks and ends with this step.
    for _ in 0..17 {
        step(&mut engine);
    }
    assert_eq!((engine.reading().preemptions, batch(&engine)), (1, vec![1]));
    let begun = engine.next_event().unwrap();
    assert_eq!(step(&mut engine), [(1, 18)]);
    assert_eq!(batch(&engine), [2]);
    let span = engine.next_event().unwrap().since(begun);
    assert_close(span, 10.0 + 16.0);
    assert_eq!(step(&mut engine), [(2, 17)], "64 of 80 tokens were still there");
    assert_eq!(engine.prefix_hits(), (0, 128), "only first admissions count");
}

#[test]
fn a_crash_empties_the_cache_and_the_tally_stays() {
    let mut engine = engine(roomy());
    hits_of(&mut engine, 1, 1024, &[7, 8]);
    hits_of(&mut engine, 2, 1024, &[7, 8]);
    engine.crash();
    assert_eq!(hits_of(&mut engine, 3, 1024, &[7, 8]), 0);
    assert_eq!(engine.prefix_hits(), (1008, 3072));
}
