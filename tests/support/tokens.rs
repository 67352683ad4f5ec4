//! An issuer of JSON Web Tokens, by PyJWT.

use std::path::PathBuf;

use serde_json::Value;

use super::gateway::fresh_file;
use super::tools::{python, run};

/// The keys of an issuer in a folder, and tokens that are signed with them.
#[derive(Debug)]
pub(crate) struct Tokens {
    folder: PathBuf,
    tokens: Value,
}

// === impl Tokens ===

impl Tokens {
    pub(crate) fn new() -> Self {
        let folder = fresh_file().parent().unwrap().to_owned();
        let printed = run(python("tokens.py").arg(&folder));
        Self { folder, tokens: serde_json::from_str(&printed).unwrap() }
    }

    /// A file of the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The section of a configuration that trusts the issuer.
    pub(crate) fn section(&self) -> String {
        let (secret, keys) = (self.file("secret"), self.file("jwks.json"));
        format!(
            "[auth.jwt]\nsecret_file = {secret:?}\npublic_key_file = {keys:?}\n\
             issuer = \"issuer\"\naudience = \"tidegate\"\n"
        )
    }

    /// The tokens of a list, with their descriptions.
    pub(crate) fn list(&self, name: &str) -> Vec<(&str, &str)> {
        let entries = self.tokens[name].as_array().unwrap_or_else(|| panic!("no list {name}"));
        entries.iter().map(|pair| (pair[0].as_str().unwrap(), pair[1].as_str().unwrap())).collect()
    }

    /// A token by its name in `tests/clients/tokens.py`.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.tokens[name].as_str().unwrap_or_else(|| panic!("there is no token {name}"))
    }
}
