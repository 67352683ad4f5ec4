//! Walks through every state that a protocol can come to, nearest first.

use std::collections::HashMap;
use std::hash::Hash;

/// Something that goes from state to state.
pub(super) trait Protocol {
    type State: Clone + Eq + Hash;
    type Action: Clone;

    fn start(&self) -> Self::State;

    /// Everything that can happen next.
    fn next(&self, state: &Self::State) -> Vec<(Self::Action, Self::State)>;

    /// What is wrong with a state; `last` when nothing can happen after it.
    fn wrong(&self, state: &Self::State, last: bool) -> Option<&'static str>;
}

/// What came out.
pub(super) struct Explored<P: Protocol> {
    /// Every state that there is, or all up to the first that is wrong.
    pub(super) states: Vec<P::State>,
    /// The first that is wrong: why, and the shortest way to it.
    pub(super) wrong: Option<(&'static str, Vec<P::Action>)>,
}

/// Where a state was first come to from.
type From<P> = Option<(usize, <P as Protocol>::Action)>;

/// Explores a protocol until something is wrong or everything was seen.
pub(super) fn explore<P: Protocol>(protocol: &P) -> Explored<P> {
    let mut states = vec![protocol.start()];
    let mut known = HashMap::from([(protocol.start(), 0)]);
    let mut from: Vec<From<P>> = vec![None];
    let mut at = 0;
    while at < states.len() {
        let next = protocol.next(&states[at]);
        if let Some(why) = protocol.wrong(&states[at], next.is_empty()) {
            return Explored { states, wrong: Some((why, way::<P>(&from, at))) };
        }
        for (action, state) in next {
            known.entry(state.clone()).or_insert_with(|| {
                states.push(state);
                from.push(Some((at, action)));
                states.len() - 1
            });
        }
        at += 1;
    }
    Explored { states, wrong: None }
}

fn way<P: Protocol>(from: &[From<P>], mut at: usize) -> Vec<P::Action> {
    let mut way = Vec::new();
    while let Some((before, action)) = &from[at] {
        way.push(action.clone());
        at = *before;
    }
    way.reverse();
    way
}
