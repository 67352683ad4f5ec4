//! Why a store did not do what it was asked.

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    /// Of which kind it is, which says what can be done.
    pub trouble: Trouble,
    /// What happened, in words.
    pub text: String,
}

/// Kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The server cannot be reached or is changing: trying again later helps.
    Away,
    /// There is no room left to write.
    Full,
    /// What is stored is not what was expected, or the server does not do what is needed.
    Broken,
    /// What was asked for makes no sense.
    Asked,
}

// === impl StoreError ===

impl StoreError {
    /// A failure of this kind.
    pub fn new(trouble: Trouble, text: impl Into<String>) -> Self {
        Self { trouble, text: text.into() }
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for StoreError {}
