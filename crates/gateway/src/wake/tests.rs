//! O06: when a wake call is due.

use super::*;

fn waiting(models: &[&str]) -> Vec<UnservedModel> {
    let one =
        |model: &&str| UnservedModel { model: (*model).into(), waiting: 1, backends_wanted: 1 };
    models.iter().map(one).collect()
}

#[test]
fn o06_a_model_is_called_for_once_and_again_after_a_pause() {
    let (mut calls, again) = (WakeCalls::default(), Duration::from_secs(30));
    let start = Instant::now();
    let mut due = |models: &[&str], secs| {
        calls.is_due(&waiting(models), again, start + Duration::from_secs(secs))
    };
    assert!(!due(&[], 0), "nothing waits");
    assert!(due(&["a"], 1));
    assert!(!due(&["a"], 2), "once for however many requests");
    assert!(due(&["a", "b"], 3), "another model");
    assert!(!due(&["a", "b"], 32), "the last call was for both");
    assert!(due(&["a", "b"], 33), "they still wait");
    assert!(!due(&[], 34));
    assert!(!due(&["a"], 35), "its requests left and came again: the call is still good");
    assert!(due(&["a"], 63));
}
