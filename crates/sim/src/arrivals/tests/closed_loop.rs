//! Clients that send again: when, and what.

use flow::{Span, Time};

use super::{FIXED, assert_near, small_trace};
use crate::arrivals::{Arrivals, ClosedLoop, Lengths, Process};
use crate::random::Random;

const CLIENTS: ClosedLoop = ClosedLoop {
    outstanding: 3,
    from: Time::ZERO,
    until: Time::from_millis(100_000),
    think: Span::ZERO,
    pause: None,
};

const NOW: Time = Time::from_millis(5000);

fn refused(clients: ClosedLoop, millis: Option<u64>) -> Option<Span> {
    let at = clients.after_refusal(NOW, millis.map(Span::from_millis))?;
    Some(at.since(NOW))
}

#[test]
fn a_client_that_does_not_think_sends_at_once() {
    let mut random = Random::new(1);
    assert_eq!(CLIENTS.after_response(NOW, &mut random), Some(NOW));
    assert_eq!(random.unit(), Random::new(1).unit(), "it takes nothing from the generator");
}

#[test]
fn thinking_takes_its_mean_time() {
    let clients = ClosedLoop { think: Span::from_secs(2), until: Time::NEVER, ..CLIENTS };
    let mut random = Random::new(2);
    let sum: f64 = (0..20_000)
        .filter_map(|_| clients.after_response(NOW, &mut random))
        .map(|at| at.since(NOW).secs_f64())
        .sum();
    assert_near(sum / 20_000.0, 2.0, 0.03, "mean time to think");
}

/// The header that clients see has whole seconds from 1 to 59.
#[test]
fn a_refused_client_waits_as_the_header_says() {
    let told = [(None, 1), (Some(0), 1), (Some(400), 1), (Some(2001), 3), (Some(600_000), 59)];
    for (millis, secs) in told {
        assert_eq!(refused(CLIENTS, millis), Some(Span::from_secs(secs)), "{millis:?}");
    }
}

#[test]
fn a_pause_of_its_own_replaces_the_header() {
    let pause = Span::from_millis(250);
    let clients = ClosedLoop { pause: Some(pause), ..CLIENTS };
    assert_eq!(refused(clients, Some(7000)), Some(pause));
}

#[test]
fn clients_do_not_send_after_their_time() {
    let clients = ClosedLoop { until: NOW, ..CLIENTS };
    assert_eq!(clients.after_response(NOW, &mut Random::new(3)), None);
    let clients = ClosedLoop { until: NOW.after(Span::from_secs(1)), ..CLIENTS };
    assert_eq!(refused(clients, None), None);
}

#[test]
fn requests_on_demand_have_lengths_and_no_end() {
    let stream = |process| {
        let lengths = Lengths::Trace(small_trace());
        Arrivals::new(process, lengths, &Random::new(4), Time::NEVER).unwrap().take(1000)
    };
    let lengths = |process| stream(process).map(|request| (request.client, request.output));
    assert!(lengths(Process::OnDemand).eq(lengths(Process::Poisson { rate: 9.0 })));
    assert!(stream(Process::OnDemand).all(|request| request.at == Time::ZERO));
    let none = Arrivals::new(Process::OnDemand, FIXED, &Random::new(4), Time::ZERO).unwrap();
    assert_eq!(none.count(), 0);
}
