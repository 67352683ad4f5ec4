//! Profiles: those that come along, and what is refused.

use super::super::{BatchShape, Engine, Profile, RanksShape, Shape, SlotsShape, StepCost};
use super::small;

#[test]
fn every_profile_that_comes_along_is_sound_and_starts_idle() {
    for name in Profile::NAMES {
        let profile = Profile::named(name).unwrap();
        assert_eq!(profile.name(), name);
        assert_eq!(Engine::new(&profile).next_event(), None);
    }
    assert_eq!(Profile::NAMES.len(), 6);
    assert_eq!(Profile::named("abacus"), None);
}

#[test]
fn a_profile_that_makes_no_sense_is_refused_by_the_name_of_its_figure() {
    let good = small();
    let step = |change: fn(&mut StepCost)| {
        let mut step = small().step;
        change(&mut step);
        BatchShape { step, ..small() }
    };
    let cases = [
        ("kv_tokens", BatchShape { kv_tokens: 0, ..good }),
        ("kv_tokens", BatchShape { kv_tokens: 31, ..good }),
        ("kv_tokens", BatchShape { kv_tokens: 100_000_001, ..good }),
        ("kv_tokens", BatchShape { kv_tokens: u64::MAX, ..good }),
        ("max_seqs", BatchShape { max_seqs: 0, ..good }),
        ("max_batched_tokens", BatchShape { max_batched_tokens: 0, ..good }),
        ("max_len", BatchShape { max_len: 1, ..good }),
        ("step.base", step(|step| step.base = f64::NAN)),
        ("step.token", step(|step| step.token = -1.0)),
        ("step.compute", step(|step| step.compute = f64::INFINITY)),
        ("step.context", step(|step| step.context = 60_001.0)),
        ("step.sequence", step(|step| step.sequence = f64::NEG_INFINITY)),
        ("step.attention", step(|step| step.attention = -0.1)),
        ("step.overhead", step(|step| step.overhead = f64::NAN)),
        ("step.base", step(|step| step.base = 0.0)),
    ];
    for (key, shape) in cases {
        let refused = Profile::new("odd", Shape::Batch(shape)).unwrap_err();
        assert_eq!(refused.key, key);
        let words = format!("engine profile \"odd\": {key} must be {}", refused.must);
        assert_eq!(refused.to_string(), words);
    }
    let least =
        BatchShape { kv_tokens: 32, max_seqs: 1, max_batched_tokens: 1, max_len: 2, ..good };
    assert!(Profile::new("least", Shape::Batch(least)).is_ok());
}

#[test]
fn ranks_that_make_no_sense_are_refused_by_the_name_of_their_figure() {
    let refused = |ranks: u32, each: BatchShape| {
        Profile::new("odd", Shape::Ranks(RanksShape { ranks, each })).map_err(|error| error.key)
    };
    assert!(refused(1, small()).is_ok() && refused(64, small()).is_ok());
    assert_eq!(refused(0, small()).unwrap_err(), "ranks");
    assert_eq!(refused(65, small()).unwrap_err(), "ranks");
    assert_eq!(refused(2, BatchShape { max_seqs: 0, ..small() }).unwrap_err(), "max_seqs");
}

#[test]
fn slots_that_make_no_sense_are_refused_by_the_name_of_their_figure() {
    let good = SlotsShape { slots: 1, prefill_rate: 1.0, decode_rate: 1.0, max_len: 2 };
    assert!(Profile::new("least", Shape::Slots(good)).is_ok());
    let cases = [
        ("slots", SlotsShape { slots: 0, ..good }),
        ("max_len", SlotsShape { max_len: 1, ..good }),
        ("prefill_rate", SlotsShape { prefill_rate: 0.0, ..good }),
        ("prefill_rate", SlotsShape { prefill_rate: f64::NAN, ..good }),
        ("decode_rate", SlotsShape { decode_rate: -1.0, ..good }),
        ("decode_rate", SlotsShape { decode_rate: f64::INFINITY, ..good }),
    ];
    for (key, shape) in cases {
        assert_eq!(Profile::new("odd", Shape::Slots(shape)).unwrap_err().key, key);
    }
}
