//! The lease protocol as a model that is small enough to be checked in every state: workers that
//! crash or come late, leases that run out at the worst moment, owners that start anew.
//!
//! What it shows of the protocol, the conformance suite shows of the engines, by example. The
//! protocol without its token, or with its result and its end in two steps, is wrong, and the check
//! must say so: else it would prove nothing.

mod explore;

use self::explore::{Protocol, explore};

/// Where a message is. Tokens count the claims: each has one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Absent,
    Pending,
    Claimed { token: u8, ran_out: bool },
    Ended { by: Option<u8> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Letter {
    place: Place,
    claims: u8,
    sends: u8,
    results: u8,
}

/// What a worker remembers. Its memory may be older than the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Worker {
    Idle,
    Holds {
        letter: u8,
        token: u8,
        sent: bool,
    },
    /// Between the two halves of an end, where that has two.
    Halfway {
        letter: u8,
        token: u8,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    letters: Vec<Letter>,
    workers: Vec<Worker>,
    /// How much may still go wrong. Without an end to it nothing would ever have to end.
    troubles: u8,
    /// Whether somebody was told that a claim was lost.
    refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Submit(usize),
    Claim(usize, usize),
    Send(usize),
    Complete(usize),
    Finish(usize),
    PutBack(usize),
    Renew(usize),
    Cancel(usize),
    RunOut(usize),
    Revive(usize),
    Crash(usize),
    Restart,
}

/// How the end of a message is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    AtOnce,
    ResultFirst,
    EndFirst,
}

/// The protocol, or one that lacks something.
struct Lease {
    workers: usize,
    letters: usize,
    troubles: u8,
    compares_tokens: bool,
    knows_receipts: bool,
    ending: Ending,
}

impl Lease {
    fn proper(workers: usize, letters: usize, troubles: u8) -> Self {
        let (compares_tokens, knows_receipts, ending) = (true, true, Ending::AtOnce);
        Self { workers, letters, troubles, compares_tokens, knows_receipts, ending }
    }

    /// Whether a claim still counts.
    fn counts(&self, letter: &Letter, token: u8) -> bool {
        match letter.place {
            Place::Claimed { token: latest, .. } => !self.compares_tokens || latest == token,
            _ => false,
        }
    }

    /// What a worker can do.
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
        if world.troubles > 0 && world.workers[at] != Worker::Idle {
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
        if world.troubles > 0 {
            let back = |world: &mut World| world.release(at, letter, counts);
            next.push((Act::PutBack(at), world.after(back)));
        }
        next
    }

    /// What can happen to a message by itself.
    fn steps_with(&self, world: &World, at: usize) -> Vec<(Act, World)> {
        let mut next = Vec::new();
        let mut add = |act, change: &dyn Fn(&mut Letter), cost: u8| {
            let mut world = world.clone();
            change(&mut world.letters[at]);
            world.troubles -= cost;
            next.push((act, world));
        };
        let place = world.letters[at].place;
        match place {
            Place::Absent => add(Act::Submit(at), &|letter| letter.place = Place::Pending, 0),
            Place::Pending if world.troubles > 0 => add(
                Act::Cancel(at),
                &|letter| {
                    letter.place = Place::Ended { by: None };
                    letter.results += 1;
                },
                1,
            ),
            Place::Claimed { token, ran_out: false } if world.troubles > 0 => {
                let out = Place::Claimed { token, ran_out: true };
                add(Act::RunOut(at), &|letter| letter.place = out, 1);
            }
            Place::Claimed { ran_out: true, .. } => {
                add(Act::Revive(at), &|letter| letter.place = Place::Pending, 0);
            }
            // Whoever submitted it did not hear, and tries again.
            Place::Ended { .. } if !self.knows_receipts && world.troubles > 0 => {
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
    /// How it is after a change.
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
        claimed.place = Place::Claimed { token, ran_out: false };
        self.workers[worker] = Worker::Holds { letter: letter as u8, token, sent: false };
    }

    fn release(&mut self, worker: usize, letter: usize, counts: bool) {
        self.troubles -= 1;
        self.refused |= !counts;
        self.workers[worker] = Worker::Idle;
        if counts {
            self.letters[letter].place = Place::Pending;
        }
    }

    /// Too late if the message has come back; else it is held again, even if the lease had run out.
    fn renew(&mut self, worker: usize, letter: usize, counts: bool) {
        self.refused |= !counts;
        match &mut self.letters[letter].place {
            Place::Claimed { ran_out, .. } if counts => *ran_out = false,
            _ => self.workers[worker] = Worker::Idle,
        }
    }

    fn crash(&mut self, worker: usize) {
        self.troubles -= 1;
        self.workers[worker] = Worker::Idle;
        // Nobody will hold what it held: its lease runs out some time.
        self.let_go();
    }

    /// The owner of all starts anew: nobody holds anything.
    fn restart(&mut self) {
        self.troubles -= 1;
        self.workers.fill(Worker::Idle);
        for letter in &mut self.letters {
            if matches!(letter.place, Place::Claimed { .. }) {
                letter.place = Place::Pending;
            }
        }
    }

    /// Leases that nobody can renew have run out.
    fn let_go(&mut self) {
        for (at, letter) in self.letters.iter_mut().enumerate() {
            let Place::Claimed { token: latest, ran_out } = &mut letter.place else { continue };
            let held = self.workers.iter().any(|worker| match *worker {
                Worker::Holds { letter, token, .. } | Worker::Halfway { letter, token } => {
                    usize::from(letter) == at && token == *latest
                }
                Worker::Idle => false,
            });
            *ran_out |= !held;
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
            troubles: self.troubles,
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
        if world.troubles > 0 && busy {
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
            Letter { claims, .. } if *claims > self.troubles + 1 => {
                Some("claimed without a reason")
            }
            _ => None,
        }
    }
}

#[test]
fn d07_the_lease_protocol_holds_in_every_state() {
    for (workers, letters, troubles) in [(1, 1, 6), (2, 2, 4), (3, 2, 3), (2, 3, 3), (3, 3, 2)] {
        let protocol = Lease::proper(workers, letters, troubles);
        let explored = explore(&protocol);
        let count = explored.states.len();
        assert!(explored.wrong.is_none(), "{:?}", explored.wrong);
        eprintln!("{workers} workers, {letters} messages, {troubles} troubles: {count} states");
        // The walk came to where it matters.
        let seen = |what: fn(&World) -> bool| explored.states.iter().any(what);
        let late = workers > 1 || troubles > 1;
        assert!(!late || seen(|world| world.refused), "somebody was too late");
        assert!(seen(|world| world.letters.iter().any(|letter| letter.sends > 1)), "sent again");
        assert!(
            seen(|world| world.letters.iter().all(|letter| letter.results == 1)),
            "all has ended"
        );
    }
}

/// What the check says of a protocol that lacks something.
fn found(lacking: &Lease) -> (&'static str, Vec<Act>) {
    explore(lacking).wrong.expect("the check finds nothing wrong")
}

#[test]
fn d07_without_tokens_the_check_fails() {
    let lacking = Lease { compares_tokens: false, ..Lease::proper(2, 1, 2) };
    let (why, way) = found(&lacking);
    assert_eq!(why, "ended by one who had lost it", "{way:?}");
    assert!(way.contains(&Act::Revive(0)), "{way:?}");
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
