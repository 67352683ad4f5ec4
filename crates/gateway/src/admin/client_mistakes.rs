//! What clients do wrong, with the model or the path that they may have meant.

use std::collections::BTreeMap;

use flow::{Span, Time};

use crate::config::Config;
use crate::diagnosis::situation::ClientMistake;
use crate::ingress::path;
use crate::observe::{IdNames, RequestMistake};
use crate::schema;
use crate::state::State;

/// What clients did wrong most often in the last minute, and what they may have meant.
pub(super) fn client_mistakes(
    state: &State,
    now: Time,
    named: &IdNames<'_>,
    config: &Config,
) -> Vec<ClientMistake> {
    let since = now.before(Span::from_secs(60));
    let mistakes = state.observer.mistakes(since);
    let entry = |RequestMistake { reason, flow, model, path }| {
        let known = || named.models.values().copied().chain(config.ruled_names());
        let is_unknown = !model.is_empty() && !known().any(|name| name == model);
        let meant = || schema::nearest(&model, known()).or_else(|| by_end(&model, known()));
        let path = Some(path).filter(|path| !path::is_usual(path)).unwrap_or_default();
        let model_meant = is_unknown.then(meant).flatten();
        let suggestion = path::meant(&path).or(model_meant).map(str::to_owned);
        ClientMistake { reason, flow, model, path, suggestion }
    };
    let lost = lost(state.observer.unknown_paths(since));
    mistakes.into_iter().map(entry).chain(lost).collect()
}

/// The most frequent of these paths, of several such one with a path that was meant.
fn lost(paths: BTreeMap<String, usize>) -> Option<ClientMistake> {
    let most = paths.values().copied().max()?;
    let frequent = paths.into_iter().filter(|(_, count)| *count == most);
    let mistakes = frequent.map(|(path, _)| {
        let suggestion = path::meant(&path).map(str::to_owned);
        ClientMistake { reason: "not_found", path, suggestion, ..ClientMistake::default() }
    });
    mistakes.max_by_key(|mistake| mistake.suggestion.is_some())
}

/// The nearest name without the organisation in front, which clients leave out or write.
fn by_end<'n>(model: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let end = |name: &'n str| (name.rsplit('/').next().unwrap_or_default(), name);
    let ends: BTreeMap<&str, &str> = known.map(end).collect();
    let model = model.rsplit('/').next().unwrap_or_default();
    let nearest = schema::nearest(model, ends.keys().copied())?;
    ends.get(nearest).copied()
}
