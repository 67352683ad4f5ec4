//! Recorded files for tests. They are not part of this repository.

/// The text of a recorded file, or none where the collection is not here. CI has it.
pub(crate) fn recorded(file: &str) -> Option<String> {
    let path = format!("{}/../../../shared/traces/{file}", env!("CARGO_MANIFEST_DIR"));
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{path}: {error}");
            eprintln!("not checked: {path}: {error}");
            None
        }
    }
}
