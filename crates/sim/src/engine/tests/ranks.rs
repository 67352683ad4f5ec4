//! Data-parallel ranks: one step for all, one rank for each request.

use super::super::{BatchShape, Engine, Profile, RanksShape, Rejected, Shape};
use super::{JobId, drain, job, ms, small, step};

fn two_ranks(each: BatchShape) -> Engine {
    let shape = Shape::Ranks(RanksShape { ranks: 2, each });
    Engine::new(&Profile::new("test", shape).unwrap())
}

/// A step of the small engine costs 10 ms and 1 ms per token of a rank.
#[test]
fn a_step_lasts_as_long_as_that_of_the_slowest_rank() {
    let mut engine = two_ranks(small());
    engine.submit(job(1, 5, 2), ms(0)).unwrap();
    assert_eq!(engine.next_event(), Some(ms(15)), "the other rank waits");
    engine.submit(job(2, 40, 2), ms(1)).unwrap();
    assert_eq!(step(&mut engine), [(1, 1)]);
    // One token of the first, beside the whole prompt of the second on the other rank.
    assert_eq!(engine.next_event(), Some(ms(65)));
    assert_eq!(step(&mut engine), [(1, 2), (2, 1)]);
    assert_eq!(engine.next_event(), Some(ms(76)));
}

#[test]
fn a_request_goes_to_the_rank_with_the_least_work() {
    let mut engine = two_ranks(BatchShape { max_seqs: 1, ..small() });
    for id in 1..=4 {
        engine.submit(job(id, 1, 3), ms(0)).unwrap();
    }
    let reading = engine.reading();
    assert_eq!((reading.running, reading.waiting), (1, 0), "as the last scheduling left it");
    step(&mut engine);
    let reading = engine.reading();
    assert_eq!((reading.running, reading.waiting), (2, 2), "one runs and one waits on each");
    assert_eq!(reading.running_max, Some(2));
    assert_eq!(reading.kv_tokens, Some(2 * 11 * 16));
}

#[test]
fn ranks_serve_every_request_once() {
    let mut engine = two_ranks(small());
    for id in 0..40 {
        engine.submit(job(id, 1 + id % 7, 1 + id % 5), ms(0)).unwrap();
    }
    assert_eq!(engine.submit(job(7, 1, 1), ms(0)), Err(Rejected::Known(JobId(7))));
    assert!(engine.abort(JobId(39), ms(0)) && !engine.abort(JobId(39), ms(0)));
    let out = drain(&mut engine);
    let finished = out.iter().filter(|(_, progress)| progress.finished).count();
    assert_eq!(finished, 39);
    assert_eq!(out.len() as u32, (0..39).map(|id| 1 + id % 5).sum::<u32>());
    assert_eq!(engine.next_event(), None);
    engine.submit(job(7, 1, 1), ms(9000)).unwrap();
    assert_eq!(engine.crash(), [JobId(7)], "a name may be used again");
    assert_eq!(engine.next_event(), None);
}
