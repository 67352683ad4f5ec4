//! The engine that works like Ollama.

use flow::Time;

use super::super::{Engine, EngineReading, JobId, Profile, Progress, Rejected, Shape, SlotsShape};
use super::{drain, job, ms, step};

/// Two slots, a prompt token in 1 ms, an output token in 10 ms.
fn two_slots() -> Engine {
    let shape = SlotsShape { slots: 2, prefill_rate: 1000.0, decode_rate: 100.0, max_len: 100 };
    Engine::new(&Profile::new("two", Shape::Slots(shape)).unwrap())
}

#[test]
fn a_slot_reads_the_prompt_and_then_writes_at_its_pace() {
    let mut engine = two_slots();
    engine.submit(job(1, 50, 3), ms(5)).unwrap();
    engine.submit(job(2, 20, 2), ms(5)).unwrap();
    let came: Vec<(Time, u32, u32)> = drain(&mut engine)
        .into_iter()
        .map(|(at, progress)| (at, progress.job.0, progress.tokens))
        .collect();
    let expected = [(ms(25), 2, 1), (ms(35), 2, 2), (ms(55), 1, 1), (ms(65), 1, 2), (ms(75), 1, 3)];
    assert_eq!(came, expected);
}

#[test]
fn jobs_beyond_the_slots_wait_in_line() {
    let mut engine = two_slots();
    for id in 0..4 {
        engine.submit(job(id, 10, 1), Time::ZERO).unwrap();
    }
    let reading =
        EngineReading { running: 2, waiting: 2, running_max: Some(2), ..EngineReading::default() };
    assert_eq!(engine.reading(), reading);
    assert_eq!(step(&mut engine), [(0, 1), (1, 1)]);
    assert_eq!(engine.next_event(), Some(ms(20)));
    assert_eq!(step(&mut engine), [(2, 1), (3, 1)]);
    assert_eq!(engine.prefix_hits(), (0, 0));
}

#[test]
fn a_slot_whose_client_left_takes_the_next_in_line_at_once() {
    let mut engine = two_slots();
    for id in 0..4 {
        engine.submit(job(id, 10, 5), Time::ZERO).unwrap();
    }
    assert!(engine.abort(JobId(0), ms(4)), "in a slot");
    assert!(engine.abort(JobId(3), ms(4)), "in line");
    assert!(!engine.abort(JobId(0), ms(4)), "gone");
    assert_eq!(step(&mut engine), [(1, 1)]);
    assert_eq!(engine.next_event(), Some(ms(14)));
    assert_eq!(step(&mut engine), [(2, 1)]);
    assert_eq!(engine.crash(), [JobId(1), JobId(2)]);
    let idle = EngineReading { running_max: Some(2), ..EngineReading::default() };
    assert_eq!((engine.next_event(), engine.reading()), (None, idle));
}

#[test]
fn nothing_is_taken_as_one_and_too_much_is_rejected() {
    let mut engine = two_slots();
    engine.submit(job(1, 0, 0), Time::ZERO).unwrap();
    assert_eq!(engine.submit(job(1, 1, 1), Time::ZERO), Err(Rejected::Known(JobId(1))));
    let too_long = Rejected::TooLong { tokens: 101, limit: 100 };
    assert_eq!(engine.submit(job(2, 100, 0), Time::ZERO), Err(too_long));
    assert_eq!(engine.submit(job(2, 99, 1), Time::ZERO), Ok(()));
    let first = drain(&mut engine)[0];
    assert_eq!(first, (ms(1), Progress { job: JobId(1), tokens: 1, finished: true, cached: 0 }));
}

#[test]
fn a_slow_machine_is_slow_from_the_next_token_on() {
    let mut engine = two_slots();
    engine.submit(job(1, 10, 3), Time::ZERO).unwrap();
    engine.slow_down(2.0);
    step(&mut engine);
    assert_eq!(engine.next_event(), Some(ms(30)));
    let mut out = Vec::new();
    engine.advance(ms(50), &mut out);
    assert_eq!(out.len(), 2, "advancing late brings everything that was due");
}

#[test]
fn advancing_late_lets_those_in_line_begin_when_a_slot_came_free() {
    let mut engine = two_slots();
    for id in 0..3 {
        engine.submit(job(id, 10, 1), Time::ZERO).unwrap();
    }
    engine.advance(ms(13), &mut Vec::new());
    assert_eq!(engine.next_event(), Some(ms(20)));
}
