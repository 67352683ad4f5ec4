//! The lease protocol as a model that is small enough to check in every state: workers that crash
//! or are late, leases that expire at any moment, owners that restart.
//!
//! The model proves properties of the protocol; the conformance suite tests the engines by example.
//! A protocol without tokens, or with the result and the end in two steps, violates the properties,
//! and the check must find that.

mod explore;

use self::explore::{Protocol, explore};

/// The state of a message. The token of a claim is its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Absent,
    Pending,
    Claimed { token: u8, expired: bool },
    Ended { by: Option<u8> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Letter {
    place: Place,
    claims: u8,
    sends: u8,
    results: u8,
}

/// What a worker knows, which may be out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Worker {
    Idle,
    Holds {
        letter: u8,
        token: u8,
        sent: bool,
    },
    /// Between the two steps of an end, in a protocol that has two.
    Halfway {
        letter: u8,
        token: u8,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    letters: Vec<Letter>,
    workers: Vec<Worker>,
    /// How many faults may still happen. Without a bound, no history would have to end.
    faults: u8,
    /// Whether a worker was told that its claim was lost.
    refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Submit(usize),
    Claim(usize, usize),
    Send(usize),
    Complete(usize),
    Finish(usize),
    Release(usize),
    Renew(usize),
    Cancel(usize),
    Expire(usize),
    Reclaim(usize),
    Crash(usize),
    Restart,
}

/// The order in which the result and the end of a message are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    AtOnce,
    ResultFirst,
    EndFirst,
}

/// The protocol, or an incomplete variant.
struct Lease {
    workers: usize,
    letters: usize,
    faults: u8,
    compares_tokens: bool,
    knows_receipts: bool,
    ending: Ending,
}

impl Lease {
    fn proper(workers: usize, letters: usize, faults: u8) -> Self {
        let (compares_tokens, knows_receipts, ending) = (true, true, Ending::AtOnce);
        Self { workers, letters, faults, compares_tokens, knows_receipts, ending }
    }

    /// Whether the engine accepts calls with this token.
    fn counts(&self, letter: &Letter, token: u8) -> bool {
        match letter.place {
            Place::Claimed { token: latest, .. } => !self.compares_tokens || latest == token,
            _ => false,
        }
    }

    /// The possible actions of a worker.
    fn steps_of(&self, world: &World, at: usize) -> Vec<(Act, World)> {
        let mut next = match world.workers[at] {
            Worker::Idle => self.claims(world, at),
            Worker::Holds { letter, token, sent } => {
                self.words_of_holder(world, (at, letter.into()), token, sent)
            }
            Worker::Halfway { letter, token } => {
                let finish =
                    |world: &mut World| self.second_half(world, (at, letter.into()), token);
                vec![(Act::Finish(at), world.after(finish))]
            }
        };
        if world.faults > 0 && world.workers[at] != Worker::Idle {
            next.push((Act::Crash(at), world.after(|world| world.crash(at))));
        }
        next
    }

    fn claims(&self, world: &World, at: usize) -> Vec<(Act, World)> {
        let pending = |letter: &usize| world.letters[*letter].place == Place::Pending;
        let claim = |letter| (Act::Claim(at, letter), world.after(|world| world.claim(at, letter)));
        (0..self.letters).filter(pending).map(claim).collect()
    }

    fn words_of_holder(
        &self,
        world: &World,
        (at, letter): (usize, usize),
        token: u8,
        sent: bool,
    ) -> Vec<(Act, World)> {
        let counts = self.counts(&world.letters[letter], token);
        let renew = world.after(|world| world.renew(at, letter, counts));
        let mut next = vec![(Act::Renew(at), renew)];
        if sent {
            let complete = |world: &mut World| self.complete(world, at, counts);
            next.push((Act::Complete(at), world.after(complete)));
        } else {
            next.push((Act::Send(at), world.after(|world| world.send(at, letter, token))));
        }
        if world.faults > 0 {
            let back = |world: &mut World| world.release(at, letter, counts);
            next.push((Act::Release(at), world.after(back)));
        }
        next
    }

    /// The possible events of a message.
    fn steps_with(&self, world: &World, at: usize) -> Vec<(Act, World)> {
        let mut next = Vec::new();
        let mut add = |act, change: &dyn Fn(&mut Letter), cost: u8| {
            let mut world = world.clone();
            change(&mut world.letters[at]);
            world.faults -= cost;
            next.push((act, world));
        };
        let place = world.letters[at].place;
        match place {
            Place::Absent => add(Act::Submit(at), &|letter| letter.place = Place::Pending, 0),
            Place::Pending if world.faults > 0 => add(
                Act::Cancel(at),
                &|letter| {
                    letter.place = Place::Ended { by: None };
                    letter.results += 1;
                },
                1,
            ),
            Place::Claimed { token, expired: false } if world.faults > 0 => {
                let out = Place::Claimed { token, expired: true };
                add(Act::Expire(at), &|letter| letter.place = out, 1);
            }
            Place::Claimed { expired: true, .. } => {
                add(Act::Reclaim(at), &|letter| letter.place = Place::Pending, 0);
            }
            // The reply to the producer was lost, and it submits again.
            Place::Ended { .. } if !self.knows_receipts && world.faults > 0 => {
                add(Act::Submit(at), &|letter| letter.place = Place::Pending, 1);
            }
            _ => {}
        }
        next
    }

    fn complete(&self, world: &mut World, at: usize, counts: bool) {
        let Worker::Holds { letter, token, .. } = world.workers[at] else { return };
        world.refused |= !counts;
        world.workers[at] = Worker::Idle;
        if !counts {
            return;
        }
        let kept = &mut world.letters[usize::from(letter)];
        if self.ending != Ending::EndFirst {
            kept.results += 1;
        }
        if self.ending != Ending::ResultFirst {
            kept.place = Place::Ended { by: Some(token) };
        }
        if self.ending != Ending::AtOnce {
            world.workers[at] = Worker::Halfway { letter, token };
        }
    }

    fn second_half(&self, world: &mut World, (worker, letter): (usize, usize), token: u8) {
        world.workers[worker] = Worker::Idle;
        let counts = self.counts(&world.letters[letter], token);
        match self.ending {
            Ending::EndFirst => world.letters[letter].results += 1,
            Ending::ResultFirst if counts => {
                world.letters[letter].place = Place::Ended { by: Some(token) };
            }
            _ => {}
        }
    }
}

impl World {
    /// The world after a change.
    fn after(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut world = self.clone();
        change(&mut world);
        world
    }

    fn send(&mut self, worker: usize, letter: usize, token: u8) {
        self.workers[worker] = Worker::Holds { letter: letter as u8, token, sent: true };
        self.letters[letter].sends += 1;
    }

    fn claim(&mut self, worker: usize, letter: usize) {
        let claimed = &mut self.letters[letter];
        claimed.claims += 1;
        let token = claimed.claims;
        claimed.place = Place::Claimed { token, expired: false };
        self.workers[worker] = Worker::Holds { letter: letter as u8, token, sent: false };
    }

    fn release(&mut self, worker: usize, letter: usize, counts: bool) {
        self.faults -= 1;
        self.refused |= !counts;
        self.workers[worker] = Worker::Idle;
        if counts {
            self.letters[letter].place = Place::Pending;
        }
    }

    /// Fails when the message was reclaimed; otherwise the lease is valid again, even if it had
    /// expired.
    fn renew(&mut self, worker: usize, letter: usize, counts: bool) {
        self.refused |= !counts;
        match &mut self.letters[letter].place {
            Place::Claimed { expired, .. } if counts => *expired = false,
            _ => self.workers[worker] = Worker::Idle,
        }
    }

    fn crash(&mut self, worker: usize) {
        self.faults -= 1;
        self.workers[worker] = Worker::Idle;
        // No worker renews its leases, so they expire.
        self.let_go();
    }

    /// The owner of the file restarts: all claims end.
    fn restart(&mut self) {
        self.faults -= 1;
        self.workers.fill(Worker::Idle);
        for letter in &mut self.letters {
            if matches!(letter.place, Place::Claimed { .. }) {
                letter.place = Place::Pending;
            }
        }
    }

    /// Expires the leases that no worker can renew.
    fn let_go(&mut self) {
        for (at, letter) in self.letters.iter_mut().enumerate() {
            let Place::Claimed { token: latest, expired } = &mut letter.place else { continue };
            let held = self.workers.iter().any(|worker| match *worker {
                Worker::Holds { letter, token, .. } | Worker::Halfway { letter, token } => {
                    usize::from(letter) == at && token == *latest
                }
                Worker::Idle => false,
            });
            *expired |= !held;
        }
    }
}

impl Protocol for Lease {
    type State = World;
    type Action = Act;

    fn start(&self) -> World {
        let letter = Letter { place: Place::Absent, claims: 0, sends: 0, results: 0 };
        World {
            letters: vec![letter; self.letters],
            workers: vec![Worker::Idle; self.workers],
            faults: self.faults,
            refused: false,
        }
    }

    fn next(&self, world: &World) -> Vec<(Act, World)> {
        let mut next: Vec<(Act, World)> = (0..self.workers)
            .flat_map(|worker| self.steps_of(world, worker))
            .chain((0..self.letters).flat_map(|letter| self.steps_with(world, letter)))
            .filter(|(_, after)| after != world)
            .collect();
        let busy = world.workers.iter().any(|worker| *worker != Worker::Idle);
        if world.faults > 0 && busy {
            next.push((Act::Restart, world.after(World::restart)));
        }
        for (_, after) in &mut next {
            after.let_go();
        }
        next
    }

    fn wrong(&self, world: &World, last: bool) -> Option<&'static str> {
        world.letters.iter().find_map(|letter| self.wrong_with(letter, last))
    }
}

impl Lease {
    fn wrong_with(&self, letter: &Letter, last: bool) -> Option<&'static str> {
        let ended = matches!(letter.place, Place::Ended { .. });
        match letter {
            Letter { results: 2.., .. } => Some("two results"),
            Letter { results: 0, .. } if last => Some("lost"),
            _ if last && !ended => Some("stuck"),
            Letter { place: Place::Ended { by: Some(token) }, claims, .. } if token != claims => {
                Some("ended by one who had lost it")
            }
            Letter { sends, claims, .. } if sends > claims => Some("sent without a claim"),
            Letter { claims, .. } if *claims > self.faults + 1 => Some("claimed without a reason"),
            _ => None,
        }
    }
}

#[test]
fn d07_the_lease_protocol_holds_in_every_state() {
    for (workers, letters, faults) in [(1, 1, 6), (2, 2, 4), (3, 2, 3), (2, 3, 3), (3, 3, 2)] {
        let protocol = Lease::proper(workers, letters, faults);
        let explored = explore(&protocol);
        let count = explored.states.len();
        assert!(explored.wrong.is_none(), "{:?}", explored.wrong);
        eprintln!("{workers} workers, {letters} messages, {faults} faults: {count} states");
        // The exploration reached the interesting states.
        let seen = |what: fn(&World) -> bool| explored.states.iter().any(what);
        let late = workers > 1 || faults > 1;
        assert!(!late || seen(|world| world.refused), "a worker was too late");
        assert!(seen(|world| world.letters.iter().any(|letter| letter.sends > 1)), "sent again");
        assert!(
            seen(|world| world.letters.iter().all(|letter| letter.results == 1)),
            "all has ended"
        );
    }
}

/// The violation that the check finds in an incomplete protocol.
fn found(lacking: &Lease) -> (&'static str, Vec<Act>) {
    explore(lacking).wrong.expect("the check finds nothing wrong")
}

#[test]
fn d07_without_tokens_the_check_fails() {
    let lacking = Lease { compares_tokens: false, ..Lease::proper(2, 1, 2) };
    let (why, way) = found(&lacking);
    assert_eq!(why, "ended by one who had lost it", "{way:?}");
    assert!(way.contains(&Act::Reclaim(0)), "{way:?}");
}

#[test]
fn d07_with_a_result_after_the_end_the_check_fails() {
    let lacking = Lease { ending: Ending::EndFirst, ..Lease::proper(2, 1, 1) };
    let (why, way) = found(&lacking);
    assert_eq!(why, "lost", "{way:?}");
}

#[test]
fn d07_with_a_result_before_the_end_in_a_step_of_its_own_the_check_fails() {
    let lacking = Lease { ending: Ending::ResultFirst, ..Lease::proper(2, 1, 1) };
    let (why, way) = found(&lacking);
    assert_eq!(why, "two results", "{way:?}");
}

#[test]
fn d07_without_receipts_the_check_fails() {
    let lacking = Lease { knows_receipts: false, ..Lease::proper(1, 1, 1) };
    let (why, way) = found(&lacking);
    assert_eq!(why, "two results", "{way:?}");
}
