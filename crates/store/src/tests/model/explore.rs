//! Explores every reachable state of a protocol, breadth first.

use std::collections::HashMap;
use std::hash::Hash;

/// A state machine.
pub(super) trait Protocol {
    type State: Clone + Eq + Hash;
    type Action: Clone;

    fn start(&self) -> Self::State;

    /// All actions that are possible in a state, and the states after them.
    fn next(&self, state: &Self::State) -> Vec<(Self::Action, Self::State)>;

    /// The violated property of a state, if any; `last` when no action is possible in it.
    fn wrong(&self, state: &Self::State, last: bool) -> Option<&'static str>;
}

/// The result of an exploration.
pub(super) struct Explored<P: Protocol> {
    /// Every reachable state, or all up to the first wrong one.
    pub(super) states: Vec<P::State>,
    /// The first wrong state: the violated property, and the shortest path to it.
    pub(super) wrong: Option<(&'static str, Vec<P::Action>)>,
}

/// The state and the action from which a state was first reached.
type From<P> = Option<(usize, <P as Protocol>::Action)>;

/// Explores a protocol until a state is wrong or all states are known.
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
