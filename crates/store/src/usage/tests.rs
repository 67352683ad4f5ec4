//! Sums outlive the process, and no odd row spoils those of others.

use super::*;

fn key(hour: u64, tenant: &str) -> UsageKey {
    UsageKey { hour, tenant: tenant.into(), key: "k".into(), model: "m".into() }
}

fn tokens(prompt: u64, completion: u64) -> UsageAmounts {
    UsageAmounts { requests: 1, prompt, completion, ..UsageAmounts::default() }
}

fn all(all: u64) -> UsedTokens {
    UsedTokens { all, cached: 0 }
}

#[test]
fn x05_amounts_add_up_by_the_hour_and_outlive_the_process() {
    let folder = std::env::temp_dir().join(format!("usage-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("usage.db");
    let mut store = UsageStore::open(&path).unwrap();
    store.add([(&key(7, "a"), &tokens(10, 1)), (&key(7, "b"), &tokens(5, 5))]).unwrap();
    // Never closed, as after a kill.
    std::mem::forget(store);
    let mut store = UsageStore::open(&path).unwrap();
    store.add([(&key(7, "a"), &tokens(1, 1)), (&key(8, "a"), &tokens(100, 0))]).unwrap();
    let since = |store: &UsageStore, hour| store.tokens_since(hour).unwrap();
    assert_eq!(since(&store, 7), [("a".into(), all(113)), ("b".into(), all(10))]);
    assert_eq!(since(&store, 8), [("a".into(), all(100))]);
    let query = UsageQuery { tenant: Some("a".into()), since: 7, until: 8, after: None, limit: 10 };
    let sum = UsageAmounts { requests: 2, ..tokens(11, 2) };
    assert_eq!(store.read(&query).unwrap(), [(key(7, "a"), sum)]);
    store.forget(8).unwrap();
    assert_eq!(since(&store, 0), [("a".into(), all(100))]);
    std::fs::write(folder.join("other"), "no database").unwrap();
    assert!(UsageStore::open(&folder.join("other")).is_err());
    std::fs::remove_dir_all(folder).unwrap();
}

/// A row may be of a version that believed all that it read.
#[test]
fn x05_rows_that_cannot_be_take_nothing_from_others() {
    let folder = std::env::temp_dir().join(format!("usage-odd-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut store = UsageStore::open(&folder.join("usage.db")).unwrap();
    let cached = |prompt, cached| UsageAmounts { prompt, cached, ..UsageAmounts::default() };
    store.add([(&key(7, "a"), &cached(10, 1_000_000))]).unwrap();
    store.add([(&key(8, "a"), &cached(500, 0)), (&key(9, "a"), &cached(90, 40))]).unwrap();
    let used = UsedTokens { all: 600, cached: 50 };
    assert_eq!(store.tokens_since(0).unwrap(), [("a".into(), used)]);
    assert_eq!(used.charged(false), 550);
    let query = UsageQuery { until: 8, limit: 10, ..UsageQuery::default() };
    assert_eq!(store.read(&query).unwrap(), [(key(7, "a"), cached(10, 10))]);
    // Sums that no number holds.
    for hour in [10, 10, 11] {
        store.add([(&key(hour, "b"), &tokens(u64::MAX, u64::MAX))]).unwrap();
    }
    let [_, (_, many)] = &store.tokens_since(0).unwrap()[..] else { panic!("two tenants") };
    assert!(many.all >= 4 * ROW_MAX.unsigned_abs(), "{many:?}");
    let query = UsageQuery { since: 10, until: 12, limit: 10, ..UsageQuery::default() };
    let rows = store.read(&query).unwrap();
    assert!(rows.iter().all(|(_, sums)| sums.prompt == i64::MAX.unsigned_abs()), "{rows:?}");
    std::fs::remove_dir_all(folder).unwrap();
}
