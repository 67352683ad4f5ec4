//! The rule of the autoscaler, look by look.

use super::*;

const SCALING: Scaling = Scaling {
    min: 1,
    max: 10,
    start_up: Span::from_secs(120),
    poll: Span::from_secs(15),
    cool_down: Span::from_secs(300),
};

fn at(secs: u64) -> Time {
    Time::ZERO.after(Span::from_secs(secs))
}

#[test]
fn engines_are_added_at_once_within_the_rule() {
    let mut scaler = Autoscaler::new(SCALING, ScaleSignal::Wanted);
    assert_eq!(scaler.look(3.0, 1, at(0)), 3);
    assert_eq!(scaler.look(9.0, 1, at(15)), 5, "four more at most, where there are few");
    assert_eq!(scaler.look(99.0, 5, at(30)), 10, "as many again, up to the most");
    let mut scaler = Autoscaler::new(SCALING, ScaleSignal::QueueSize(2.0));
    assert_eq!(scaler.look(7.0, 3, at(0)), 4, "seven over two, rounded up");
    let mut scaler = Autoscaler::new(SCALING, ScaleSignal::Utilization(0.7));
    assert_eq!(scaler.look(0.9, 4, at(0)), 6, "four times 0.9 over 0.7");
    assert_eq!(scaler.look(0.75, 4, at(15)), 4, "within a tenth of the target");
}

#[test]
fn engines_are_removed_after_the_cool_down_alone() {
    let mut scaler = Autoscaler::new(SCALING, ScaleSignal::Wanted);
    assert_eq!(scaler.look(5.0, 5, at(0)), 5);
    for secs in (15..=300).step_by(15) {
        assert_eq!(scaler.look(2.0, 5, at(secs)), 5, "{secs} s after the last that wanted five");
    }
    assert_eq!(scaler.look(1.0, 5, at(315)), 2, "the highest of the cool-down");
    assert_eq!(scaler.look(0.0, 2, at(330)), 2);
    assert_eq!(scaler.look(0.0, 2, at(700)), 1, "never below the fewest");
}
