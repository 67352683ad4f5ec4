//! What clients do wrong, with the name of the model that they may have meant.

use flow::{Span, Time};

use crate::config::Config;
use crate::diagnosis::situation::ClientMistake;
use crate::observe::{IdNames, RequestMistake};
use crate::schema;
use crate::state::State;

/// What clients did wrong most often in the last minute, and which model they may have meant.
pub(super) fn client_mistakes(
    state: &State,
    now: Time,
    named: &IdNames<'_>,
    config: &Config,
) -> Vec<ClientMistake> {
    let mistakes = state.observer.mistakes(now.before(Span::from_secs(60)));
    let entry = |RequestMistake { reason, flow, model }| {
        let known = || named.models.values().copied().chain(config.ruled_names());
        let is_unknown = !model.is_empty() && !known().any(|name| name == model);
        let nearest = || schema::nearest(&model, known());
        // Clients leave out the organisation in front of a name, or write one.
        let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_lowercase();
        let same = || known().find(|name| last(name) == last(&model));
        let suggestion = is_unknown.then(|| same().or_else(nearest)).flatten();
        let suggestion = suggestion.map(str::to_owned);
        ClientMistake { reason, flow, model, suggestion }
    };
    mistakes.into_iter().map(entry).collect()
}
