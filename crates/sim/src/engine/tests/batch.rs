//! The engine that works like vLLM: steps, chunks, limits, preemption, endings.

use flow::Time;

use super::super::{
    BatchShape, Engine, EngineReading, JobId, Policy, Profile, Progress, Rejected, Shape,
};
use super::{assert_close, batch, drain, engine, job, ms, small, step, urgent};

#[test]
fn an_idle_engine_starts_at_once_and_a_step_takes_the_time_of_the_formula() {
    let Shape::Batch(shape) = *Profile::named("rtx4090-8b").unwrap().shape() else { panic!() };
    let mut engine = engine(shape);
    assert_eq!(engine.next_event(), None);
    engine.submit(job(1, 100, 3), ms(5)).unwrap();
    let first = engine.next_event().unwrap();
    let attention = 4.56e-6 * 100.0 * 100.0 / 2.0;
    assert_close(first.since(ms(5)), 16.6 + 0.033 * 100.0 + attention + 1.6);
    assert_eq!(step(&mut engine), [(1, 1)]);
    let second = engine.next_event().unwrap();
    assert_close(second.since(first), 16.6 + 0.033 + 141.5e-6 * 100.0 + 0.0064 + 1.6);
    assert_eq!(step(&mut engine), [(1, 2)]);
    assert_eq!(step(&mut engine), [(1, 3)]);
    assert_eq!(engine.next_event(), None);
}

#[test]
fn a_large_step_is_bound_by_arithmetic_and_a_later_chunk_attends_to_the_earlier() {
    let Shape::Batch(shape) = *Profile::named("rtx4090-8b").unwrap().shape() else { panic!() };
    let mut engine = engine(shape);
    engine.submit(job(1, 3000, 1), Time::ZERO).unwrap();
    let first = engine.next_event().unwrap();
    let attention = 4.56e-6 * 2048.0 * 2048.0 / 2.0;
    assert_close(first.since(Time::ZERO), 0.088 * 2048.0 + attention + 1.6);
    assert_eq!(step(&mut engine), []);
    let second = engine.next_event().unwrap();
    let attention = 4.56e-6 * (952.0 * 952.0 / 2.0 + 952.0 * 2048.0);
    assert_close(second.since(first), 0.088 * 952.0 + attention + 1.6);
}

#[test]
fn an_arrival_is_seen_at_the_end_of_the_step() {
    let mut engine = engine(small());
    engine.submit(job(1, 10, 5), Time::ZERO).unwrap();
    assert_eq!(engine.next_event(), Some(ms(20)));
    engine.submit(job(2, 10, 5), ms(1)).unwrap();
    assert_eq!(engine.next_event(), Some(ms(20)));
    assert_eq!(engine.reading().waiting, 0, "the scheduler has not met it yet");
    assert_eq!(step(&mut engine), [(1, 1)]);
    assert_eq!(engine.next_event(), Some(ms(20 + 10 + 1 + 10)));
    assert_eq!(step(&mut engine), [(1, 2), (2, 1)]);
}

#[test]
fn advancing_late_completes_every_step_that_was_due() {
    let mut engine = engine(small());
    engine.submit(job(1, 10, 3), Time::ZERO).unwrap();
    let mut out = Vec::new();
    engine.advance(ms(19), &mut out);
    assert!(out.is_empty());
    engine.advance(ms(40), &mut out);
    let made: Vec<u32> = out.iter().map(|progress| progress.tokens).collect();
    assert_eq!(made, [1, 2], "at 20 and 31 ms; the next one is due at 42");
    assert_eq!(engine.next_event(), Some(ms(42)));
}

#[test]
fn no_tokens_are_taken_as_one() {
    for (prompt, output) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let mut engine = engine(small());
        engine.submit(job(1, prompt, output), Time::ZERO).unwrap();
        let only = Progress { job: JobId(1), tokens: 1, finished: true, cached: 0 };
        assert_eq!(drain(&mut engine), [(ms(11), only)]);
    }
}

#[test]
fn running_sequences_come_first_and_prompts_share_the_rest() {
    let mut engine = engine(BatchShape { max_batched_tokens: 32, ..small() });
    engine.submit(job(1, 10, 9), Time::ZERO).unwrap();
    engine.submit(job(2, 40, 9), Time::ZERO).unwrap();
    engine.submit(job(3, 30, 9), Time::ZERO).unwrap();
    assert_eq!(step(&mut engine), [(1, 1)]);
    assert_eq!((batch(&engine), engine.next_event()), (vec![1, 2], Some(ms(20 + 42))));
    assert_eq!(step(&mut engine), [(1, 2)], "31 of 40 tokens of the second prompt");
    assert_eq!(batch(&engine), [1, 2, 3]);
    assert_eq!(step(&mut engine), [(1, 3), (2, 1)], "the last 9, and 22 of the third");
    assert_eq!(step(&mut engine).len(), 3);
}

#[test]
fn no_more_sequences_run_than_allowed_and_the_rest_is_read_as_waiting() {
    let mut engine = engine(BatchShape { max_seqs: 2, ..small() });
    for id in 0..5 {
        engine.submit(job(id, 4, 3), Time::ZERO).unwrap();
    }
    step(&mut engine);
    let reading = engine.reading();
    assert_eq!((reading.running, reading.waiting), (2, 3));
    assert_eq!(reading.kv_tokens, Some(11 * 16));
    assert_eq!(drain(&mut engine).iter().filter(|(_, progress)| progress.finished).count(), 5);
    let idle = EngineReading { running_max: Some(2), ranks: 1, ..EngineReading::default() };
    assert_eq!(EngineReading { kv_tokens: None, ..engine.reading() }, idle);
}

#[test]
fn a_job_is_taken_in_only_when_its_whole_prompt_fits() {
    let mut engine = engine(BatchShape { max_batched_tokens: 16, ..small() });
    engine.submit(job(1, 90, 3), Time::ZERO).unwrap();
    engine.submit(job(2, 80, 3), Time::ZERO).unwrap();
    for _ in 0..5 {
        assert_eq!(step(&mut engine), []);
        assert_eq!(batch(&engine), [1]);
    }
    assert_eq!(step(&mut engine), [(1, 1)]);
    assert_eq!(batch(&engine), [1], "its first chunk would fit, all of it would not");
    drain(&mut engine);
    assert_eq!(engine.reading().preemptions, 0);
}

#[test]
fn a_preempted_job_starts_again_at_the_front_and_repeats_no_token() {
    // Ten blocks. Two jobs of four fill eight; both grow by a block each 16 tokens.
    let mut engine = engine(small());
    engine.submit(job(1, 64, 40), Time::ZERO).unwrap();
    engine.submit(job(2, 64, 40), Time::ZERO).unwrap();
    engine.submit(job(3, 64, 1), Time::ZERO).unwrap();
    let mut seen = Vec::new();
    while engine.reading().preemptions == 0 {
        seen.extend(step(&mut engine));
    }
    assert_eq!(batch(&engine), [1], "a step that preempts admits no sequence");
    assert_eq!(engine.reading().waiting, 2);
    let before = seen.iter().filter(|(id, _)| *id == 2).count() as u32;
    assert!(before > 1);
    let after = drain(&mut engine);
    let second: Vec<u32> = after
        .iter()
        .filter(|(_, progress)| progress.job == JobId(2))
        .map(|(_, progress)| progress.tokens)
        .collect();
    assert_eq!(second, (before + 1..=40).collect::<Vec<u32>>());
    let order: Vec<u32> = after
        .iter()
        .filter(|(_, progress)| progress.finished)
        .map(|(_, progress)| progress.job.0)
        .collect();
    assert_eq!(order[0], 1);
    let again = after.iter().position(|(_, progress)| progress.job == JobId(2));
    let third = after.iter().position(|(_, progress)| progress.job == JobId(3));
    assert!(again < third, "the one thrown back goes before the one that never ran");
}

#[test]
fn the_urgent_go_first_where_the_policy_looks_at_it() {
    for (policy, order) in [(Policy::Arrival, [0, 1, 2, 3]), (Policy::Priority, [0, 2, 3, 1])] {
        let mut engine = engine(BatchShape { max_seqs: 1, policy, ..small() });
        engine.submit(urgent(0, 4, 2, 0), Time::ZERO).unwrap();
        engine.submit(urgent(1, 4, 1, 1), Time::ZERO).unwrap();
        engine.submit(urgent(2, 4, 1, 9), Time::ZERO).unwrap();
        engine.submit(urgent(3, 4, 1, 9), Time::ZERO).unwrap();
        let done = drain(&mut engine).into_iter().filter(|(_, progress)| progress.finished);
        let done: Vec<u32> = done.map(|(_, progress)| progress.job.0).collect();
        assert_eq!(done, order, "{policy:?}");
    }
}

/// Three running jobs with these priorities, right before the scheduling in which the second of
/// them needs a block and none is left.
fn short_of_one_block(priorities: [u8; 3]) -> Engine {
    let shape = BatchShape { kv_tokens: 14 * 16, max_batched_tokens: 100, ..small() };
    let mut engine = engine(BatchShape { policy: Policy::Priority, ..shape });
    let [first, second, third] = priorities;
    engine.submit(urgent(1, 50, 40, first), Time::ZERO).unwrap();
    engine.submit(urgent(2, 60, 40, second), Time::ZERO).unwrap();
    step(&mut engine);
    engine.submit(urgent(3, 20, 40, third), ms(60)).unwrap();
    let mut before = engine.clone();
    while engine.reading().preemptions == 0 {
        before = engine.clone();
        step(&mut engine);
    }
    before
}

#[test]
fn the_least_urgent_is_thrown_back_even_when_its_part_was_already_planned() {
    let mut engine = short_of_one_block([0, 5, 5]);
    let begun = engine.next_event().unwrap();
    step(&mut engine);
    assert_eq!(batch(&engine), [2, 3]);
    assert_close(engine.next_event().unwrap().since(begun), 10.0 + 2.0);
    let out = step(&mut engine);
    assert_eq!(out.iter().map(|(id, _)| *id).collect::<Vec<u32>>(), [2, 3]);
    let done = drain(&mut engine).into_iter().filter(|(_, progress)| progress.finished);
    let done: Vec<u32> = done.map(|(_, progress)| progress.job.0).collect();
    assert_eq!(done, [2, 3, 1]);
}

#[test]
fn a_scheduling_ends_with_a_job_that_throws_itself_back() {
    let mut engine = short_of_one_block([5, 0, 5]);
    step(&mut engine);
    assert_eq!((batch(&engine), engine.reading().preemptions), (vec![1, 3], 1));
    let out = step(&mut engine);
    assert_eq!(out.iter().map(|(id, _)| *id).collect::<Vec<u32>>(), [1], "as in vLLM");
    assert_eq!(step(&mut engine).len(), 2);
}

#[test]
fn a_step_that_preempts_admits_no_sequence() {
    let mut engine = short_of_one_block([0, 5, 5]);
    engine.submit(urgent(4, 4, 9, 9), engine.next_event().unwrap()).unwrap();
    step(&mut engine);
    assert_eq!(batch(&engine), [2, 3], "there is room now");
    step(&mut engine);
    assert_eq!(batch(&engine), [2, 3, 4]);
}

#[test]
fn a_job_that_fills_the_cache_to_the_last_token_runs() {
    let mut engine = engine(small());
    engine.submit(job(1, 160, 1), Time::ZERO).unwrap();
    assert_eq!(engine.submit(job(2, 100, 61), Time::ZERO), Ok(()));
    assert_eq!(drain(&mut engine).len(), 62);
    assert_eq!(engine.reading().preemptions, 0);
}

#[test]
fn a_job_that_can_never_fit_is_rejected_with_the_reason() {
    let mut engine = engine(small());
    let rejected = engine.submit(job(1, 160, 2), Time::ZERO).unwrap_err();
    assert_eq!(rejected, Rejected::TooBig { tokens: 161, limit: 160 });
    assert_eq!(
        rejected.to_string(),
        "161 tokens must be held at once, the KV cache holds 160: shorten the job"
    );
    let rejected = engine.submit(job(1, 990, 11), Time::ZERO).unwrap_err();
    assert_eq!(rejected, Rejected::TooLong { tokens: 1001, limit: 1000 });
    assert_eq!(
        rejected.to_string(),
        "prompt and output make 1001 tokens, the model takes 1000: shorten one"
    );
    let rejected = engine.submit(job(1, u32::MAX, u32::MAX), Time::ZERO).unwrap_err();
    assert_eq!(rejected, Rejected::TooLong { tokens: 8_589_934_590, limit: 1000 });
    assert_eq!(engine.next_event(), None, "nothing was taken in");
}

#[test]
fn a_name_is_used_once_at_a_time() {
    let mut engine = engine(small());
    engine.submit(job(7, 10, 2), Time::ZERO).unwrap();
    let rejected = engine.submit(job(7, 10, 2), Time::ZERO).unwrap_err();
    assert_eq!(rejected, Rejected::Known(JobId(7)));
    assert_eq!(rejected.to_string(), "a job named 7 is already here: choose another name");
    assert_eq!(drain(&mut engine).len(), 2);
    assert_eq!(engine.submit(job(7, 10, 2), ms(100)), Ok(()));
}

#[test]
fn an_aborted_job_frees_its_blocks_and_reports_nothing_more() {
    let mut engine = engine(BatchShape { max_seqs: 1, ..small() });
    engine.submit(job(1, 64, 5), Time::ZERO).unwrap();
    engine.submit(job(2, 20, 1), Time::ZERO).unwrap();
    engine.submit(job(3, 20, 1), Time::ZERO).unwrap();
    assert!(engine.reading().kv_used > 0.39);
    assert!(engine.abort(JobId(1), ms(3)), "running");
    assert!(engine.abort(JobId(2), ms(3)), "waiting");
    assert!(!engine.abort(JobId(2), ms(3)), "gone");
    assert!(!engine.abort(JobId(9), ms(3)), "never here");
    assert_eq!(engine.reading().kv_used, 0.0);
    assert_eq!(engine.next_event(), Some(ms(74)), "the step goes on to its end");
    let out = drain(&mut engine);
    assert_eq!(out, [(ms(104), Progress { job: JobId(3), tokens: 1, finished: true, cached: 0 })]);
}

#[test]
fn a_crash_loses_everything() {
    let mut engine = engine(BatchShape { max_seqs: 2, ..small() });
    for id in [4, 2, 9] {
        engine.submit(job(id, 30, 5), Time::ZERO).unwrap();
    }
    step(&mut engine);
    assert_eq!(engine.crash(), [JobId(4), JobId(2), JobId(9)]);
    assert_eq!((engine.next_event(), engine.crash()), (None, vec![]));
    let reading = engine.reading();
    assert_eq!(
        reading,
        EngineReading {
            kv_tokens: Some(11 * 16),
            running_max: Some(2),
            ranks: 1,
            ..EngineReading::default()
        }
    );
    engine.submit(job(4, 30, 5), ms(500)).unwrap();
    assert_eq!(drain(&mut engine).len(), 5);
}

#[test]
fn a_slow_machine_is_slow_from_the_next_step_on_and_stays_so_over_a_crash() {
    let mut engine = engine(small());
    engine.submit(job(1, 10, 9), Time::ZERO).unwrap();
    engine.slow_down(3.0);
    assert_eq!(engine.next_event(), Some(ms(20)));
    step(&mut engine);
    assert_eq!(engine.next_event(), Some(ms(20 + 33)));
    engine.crash();
    engine.submit(job(1, 10, 9), ms(100)).unwrap();
    assert_eq!(engine.next_event(), Some(ms(160)));
    for wrong in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
        engine.slow_down(2.0);
        engine.slow_down(wrong);
        let begun = engine.next_event().unwrap();
        step(&mut engine);
        assert_close(engine.next_event().unwrap().since(begun), 11.0);
    }
}
