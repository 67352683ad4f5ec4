//! Which path was meant by one at which there is nothing.

use super::operation::{ENGINE_PATHS, MESSAGES, work_paths};
use crate::schema;

/// The paths of work that clients ask for most.
fn usual() -> impl Iterator<Item = &'static str> {
    work_paths().chain([MESSAGES, "/v1/files", "/v1/batches"])
}

/// Whether a path is one of those that clients ask for most.
pub(crate) fn is_usual(path: &str) -> bool {
    usual().chain(ENGINE_PATHS).any(|usual| usual == path)
}

/// The usual path that is nearest to another one. A base URL without `/v1`, or with it twice, is a
/// frequent mistake, so that only the ends are compared.
pub(crate) fn meant(path: &str) -> Option<&'static str> {
    let written = end(path);
    let nearest = schema::nearest(written, usual().map(end))?;
    usual().find(|usual| end(usual) == nearest && *usual != path)
}

/// What follows the last `/v1/`, or the first slash.
fn end(path: &str) -> &str {
    path.trim_matches('/').rsplit("v1/").next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m03_a_path_is_taken_for_the_usual_one_that_it_nearly_is() {
        for (path, wanted) in [
            ("/v1/chat/completion", Some("/v1/chat/completions")),
            ("/chat/completions", Some("/v1/chat/completions")),
            ("//v1/chat/completions", Some("/v1/chat/completions")),
            ("/v1/v1/chat/completions", Some("/v1/chat/completions")),
            ("/v1/chat/completions", None),
            ("/v1/message", Some("/v1/messages")),
            ("/api/generat", Some("/api/generate")),
            ("/v1/moderations", None),
            ("/v1/", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(meant(path), wanted, "{path}");
        }
    }
}
