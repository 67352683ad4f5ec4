//! X05: the limits of tenants in virtual time.

use flow::Band;
use store::UsedTokens;

use super::*;

fn tenant(requests: Option<u64>, tokens: Option<u64>) -> Arc<Tenant> {
    Arc::new(Tenant {
        name: "a".into(),
        index: 0,
        band: None,
        band_max: Band::Normal,
        requests_per_minute: requests,
        tokens_per_minute: tokens,
        quotas: Quotas::default(),
        on_quota: OnQuota::Wait,
        models: Vec::new(),
    })
}

fn limits(tenant: &Arc<Tenant>) -> TenantLimits {
    let limits = TenantLimits::default();
    limits.configure(std::slice::from_ref(tenant));
    limits
}

fn at(secs: u64) -> Now {
    Now { core: Time::ZERO.after(Span::from_secs(secs)), secs }
}

#[test]
fn x05_a_minute_of_requests_may_come_at_once_and_fills_evenly() {
    let tenant = tenant(Some(6), None);
    let limits = limits(&tenant);
    let accepted = |now: Now| limits.arrive(&tenant, now).is_ok();
    assert_eq!((0..20).filter(|_| accepted(at(5))).count(), 6, "a full minute");
    let wait = limits.arrive(&tenant, at(5)).unwrap_err();
    assert_eq!(wait, UsedUp::Requests(Span::from_secs(10)));
    assert!(!accepted(at(14)) && accepted(at(15)) && !accepted(at(15)), "one each ten seconds");
    assert!(!accepted(at(3)), "a time that jumps back adds nothing");
    assert_eq!((0..20).filter(|_| accepted(at(1000))).count(), 6, "never more than a minute");
    // Whatever the pattern, ten minutes give at most eleven minutes' requests.
    let limits = self::limits(&tenant);
    let many = (0..6000).filter(|tenth| {
        let now = Now { core: Time::from_nanos(tenth * 100_000_000), secs: 0 };
        limits.arrive(&tenant, now).is_ok()
    });
    assert_eq!(many.count(), 6 + 59);
}

#[test]
fn x05_tokens_count_as_estimated_and_then_as_used() {
    let tenant = tenant(None, Some(600));
    let limits = limits(&tenant);
    let charge = |tokens, now| limits.charge(&tenant, (tokens, false), now);
    let first = charge(100, at(0)).unwrap();
    // Its response was longer than any estimate: the tenant owes 300.
    first.settle(Some(900), 0);
    assert_eq!(charge(1, at(0)).unwrap_err(), UsedUp::Tokens(Span::from_millis(30_100)));
    assert!(charge(1, at(31)).is_ok());
    // A request without a response costs nothing.
    let dropped = charge(600, at(100)).unwrap();
    assert!(charge(1, at(100)).is_err());
    dropped.settle(Some(0), 0);
    let kept = charge(600, at(100)).unwrap();
    kept.settle(None, 0);
    assert!(charge(1, at(100)).is_err(), "the estimate of an unknown response stays");
}

#[test]
fn x05_a_claim_or_a_response_without_bound_blocks_for_a_bounded_time() {
    let tenant = tenant(None, Some(10));
    let limits = limits(&tenant);
    let claim = limits.charge(&tenant, (u64::MAX, false), at(0)).unwrap();
    assert_eq!(
        limits.charge(&tenant, (1, false), at(0)).unwrap_err(),
        UsedUp::Tokens(Span::from_secs(6)),
        "a claim costs a minute at most"
    );
    claim.settle(Some(u64::MAX), 0);
    let Err(UsedUp::Tokens(wait)) = limits.charge(&tenant, (1, false), at(0)) else {
        panic!("accepted")
    };
    assert!(wait <= Span::from_secs(3700), "{wait:?}");
}

#[test]
fn x05_a_reload_keeps_what_a_tenant_has_used() {
    let tenant = tenant(Some(1), None);
    let limits = limits(&tenant);
    assert!(limits.arrive(&tenant, at(0)).is_ok());
    limits.configure(std::slice::from_ref(&tenant));
    assert!(limits.arrive(&tenant, at(0)).is_err());
    limits.configure(&[]);
    limits.configure(std::slice::from_ref(&tenant));
    assert!(limits.arrive(&tenant, at(0)).is_err(), "it was away for a time");
}

/// 2027-01-30 and the hour of that day, in seconds since 1970.
fn hour(day: u64, hour: u64) -> Now {
    at((20_848 + day) * DAY_SECS + hour * 3600)
}

#[test]
fn x05_quotas_end_with_the_day_and_the_month_and_outlive_a_restart() {
    let with = |day, month, on_quota| {
        let quotas = Quotas { day, month };
        Arc::new(Tenant { quotas, on_quota, ..Tenant::clone(&tenant(None, None)) })
    };
    let refusing = with(Some(100), Some(250), OnQuota::Refuse);
    let limits = limits(&refusing);
    let use_up = |tokens, now: Now| {
        limits.charge(&refusing, (1, false), now).unwrap().settle(Some(tokens), now.secs);
    };
    use_up(99, hour(0, 1));
    use_up(30, hour(0, 2));
    let wait = |now| limits.charge(&refusing, (1, false), now).unwrap_err();
    assert_eq!(wait(hour(0, 20)), UsedUp::Quota(Span::from_secs(4 * 3600)));
    // The next day is the last of the month: its own quota, and the rest of the month's.
    use_up(150, hour(1, 0));
    assert_eq!(wait(hour(1, 23)), UsedUp::Quota(Span::from_secs(3600)), "the month is used up");
    assert!(limits.charge(&refusing, (1, false), hour(2, 0)).is_ok(), "February");
    // Another process knows it from the accounts.
    let waiting = with(Some(100), None, OnQuota::Wait);
    let restarted = self::limits(&waiting);
    let all = UsedTokens { all: 100, cached: 1 };
    let used = BTreeMap::from([("a".to_owned(), PeriodTokens { day: all, month: all })]);
    restarted.restore(&used, true, hour(2, 0).secs);
    assert!(
        restarted.charge(&waiting, (1, false), hour(2, 5)).unwrap().demoted,
        "it waits behind others"
    );
    assert!(!restarted.charge(&waiting, (1, false), hour(3, 0)).unwrap().demoted, "a new day");
    assert!(!restarted.charge(&waiting, (1, false), hour(3, 0)).unwrap().demoted);
}

#[test]
fn x05_a_corrected_date_gives_no_quota_and_keeps_none() {
    let quotas = Quotas { day: Some(100), month: None };
    let on_quota = OnQuota::Refuse;
    let tenant = Arc::new(Tenant { quotas, on_quota, ..Tenant::clone(&tenant(None, None)) });
    let limits = limits(&tenant);
    let charge = |now| limits.charge(&tenant, (1, false), now);
    charge(hour(9, 1)).unwrap().settle(Some(100), hour(9, 1).secs);
    let wait = charge(hour(0, 1)).unwrap_err();
    assert_eq!(wait, UsedUp::Quota(Span::from_secs(23 * 3600)), "until the end of the right day");
    // A request that began on the day before ends without its response.
    let old = charge(hour(1, 0)).unwrap();
    charge(hour(2, 1)).unwrap().settle(Some(99), hour(2, 1).secs);
    drop(old);
    assert!(charge(hour(2, 2)).is_err(), "99 and 1 are used on this day");
}

/// A clock that is set back by minutes passes midnight twice, and a response that ended before
/// midnight may be settled after one that ended later.
#[test]
fn x05_a_day_that_is_named_again_after_midnight_gives_no_second_quota() {
    let on_quota = OnQuota::Refuse;
    // The third day is the first of a month.
    for quotas in [(Some(100), None), (None, Some(100))] {
        let quotas = Quotas { day: quotas.0, month: quotas.1 };
        let tenant = Arc::new(Tenant { quotas, on_quota, ..Tenant::clone(&tenant(None, None)) });
        let limits = limits(&tenant);
        let charge = |now| limits.charge(&tenant, (1, false), now);
        charge(hour(1, 23)).unwrap().settle(Some(40), hour(1, 23).secs);
        let late = charge(hour(2, 0)).unwrap();
        charge(hour(2, 0)).unwrap().settle(Some(99), hour(2, 0).secs);
        late.settle(Some(1), hour(1, 23).secs);
        assert!(charge(hour(2, 0)).is_err(), "100 are used after midnight");
        let UsedUp::Quota(wait) = charge(hour(1, 23)).unwrap_err() else { panic!("a quota") };
        let hours = if quotas.day.is_some() { 25 } else { 28 * 24 + 1 };
        assert_eq!(wait, Span::from_secs(hours * 3600), "until the end of the later day");
        assert!(charge(hour(2, 0)).is_err(), "the clock passes midnight again");
        let later = if quotas.day.is_some() { hour(3, 0) } else { hour(30, 0) };
        assert!(charge(later).is_ok());
    }
}

#[test]
fn x05_requests_that_run_hold_their_estimate_of_a_quota() {
    let quotas = Quotas { day: Some(100), month: None };
    let on_quota = OnQuota::Refuse;
    let tenant = Arc::new(Tenant { quotas, on_quota, ..Tenant::clone(&tenant(None, None)) });
    let limits = limits(&tenant);
    let charge = |tokens| limits.charge(&tenant, (tokens, true), hour(0, 1));
    let (one, other) = (charge(60).unwrap(), charge(60).unwrap());
    assert_eq!(charge(1).unwrap_err(), UsedUp::Quota(SETTLED_SOON));
    one.settle(Some(5), hour(0, 1).secs);
    assert!(charge(1).is_ok(), "5 are used and 60 held");
    // The client of the other one left after its prompt was sent.
    other.settle(Some(90), hour(0, 1).secs);
    charge(1).unwrap().settle(Some(0), hour(0, 1).secs);
    charge(10).unwrap().settle(None, hour(0, 1).secs);
    assert!(charge(1).is_err(), "an unknown response counts with its estimate");
}

/// One request holds the whole quota, so of all that come at once one may pass.
#[test]
fn x05_requests_that_come_at_once_do_not_pass_a_quota_together() {
    const THREADS: usize = 4;
    let tenant = Arc::new(Tenant {
        quotas: Quotas { day: Some(100), month: None },
        on_quota: OnQuota::Refuse,
        ..Tenant::clone(&tenant(None, None))
    });
    for round in 0..2000 {
        let limits = limits(&tenant);
        let start = std::sync::Barrier::new(THREADS);
        let charge = || {
            start.wait();
            limits.charge(&tenant, (100, false), at(round))
        };
        let charges: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(charge)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(charges.iter().filter(|charge| charge.is_ok()).count(), 1, "round {round}");
    }
}

/// These names had one budget when the budgets were found by a hash of 64 values.
#[test]
fn n05_one_tenant_does_not_use_up_the_attempts_of_another() {
    let named =
        |name: &str| Arc::new(Tenant { name: name.into(), ..Tenant::clone(&tenant(None, None)) });
    let limits = TenantLimits::default();
    let tenants = [named("alpha"), named("team-97")];
    limits.configure(&tenants);
    let withdraws = |name: &str| limits.of(name).unwrap().retries().withdraw();
    assert_eq!((0..1000).filter(|_| withdraws("alpha")).count(), 100);
    limits.configure(&tenants);
    assert!(!withdraws("alpha") && withdraws("team-97"), "a reload fills no budget");
}
