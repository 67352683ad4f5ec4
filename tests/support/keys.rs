//! A key file and the keys in it, made by `tidegate key new`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::gateway::fresh_file;
use super::http_request::HttpRequest;
use super::tools::run;

/// A key file in a folder of its own.
#[derive(Debug)]
pub(crate) struct Keys(PathBuf);

// === impl Keys ===

impl Keys {
    pub(crate) fn new() -> Self {
        let file = fresh_file().with_file_name("keys");
        fs::write(&file, "# keys of a test\n").unwrap();
        Self(file)
    }

    pub(crate) fn file(&self) -> &Path {
        &self.0
    }

    /// The section of a configuration that names the file.
    pub(crate) fn section(&self) -> String {
        format!("[auth]\nkey_file = {:?}\n", self.0)
    }

    /// Makes a key of a tenant.
    pub(crate) fn tenant(&self, tenant: &str, name: &str) -> String {
        self.make(&["--tenant", tenant, "--name", name])
    }

    /// Makes a key with these arguments.
    pub(crate) fn make(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["key", "new", "--file"]).arg(&self.0).args(arguments);
        run(&mut command).trim().to_owned()
    }
}

// === impl HttpRequest ===

impl HttpRequest {
    /// Presents a key as OpenAI's clients do.
    pub(crate) fn key(self, key: &str) -> Self {
        self.header("Authorization", &format!("Bearer {key}"))
    }
}
