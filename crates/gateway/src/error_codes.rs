//! The table of outcomes: the status and the meaning of each code, who is at fault, and what an
//! operator can do.
//!
//! Responses, metrics, the diagnosis and `docs/ERRORS.md` read this one table. So no list elsewhere
//! can lack a code or have another name for it. Codes and statuses are a contract with programs and
//! never change.

mod table;

pub(crate) use table::ERROR_CODES;

/// One outcome of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorCode {
    pub(crate) name: &'static str,
    /// What clients get; 499 only in the log. It is 0 where a backend chose the status.
    pub(crate) status: u16,
    pub(crate) blame: Blame,
    /// When a request ends so.
    pub(crate) when: &'static str,
    /// What happened to such requests, after their number; empty for `were refused with NAME`.
    told: &'static str,
    /// What an operator can do; empty if the meaning is all that can be told.
    advice: &'static str,
}

/// Who is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The request was served, or its client wanted no response any more.
    Nobody,
    Client,
    /// A client that is not known. Anybody can send such requests.
    Stranger,
    /// A limit or a setting of the operator.
    Operator,
    /// Capacity: the request waited for too long.
    Time,
    /// Capacity: there was no place to wait.
    Place,
    /// Capacity: the backends were busy, and such a request may not wait.
    Busy,
    /// The model servers.
    Backend,
    /// A disk or a store.
    Storage,
    /// The gateway itself, or what it needs.
    Gateway,
}

// === impl ErrorCode ===

impl ErrorCode {
    /// The entry of a code; of an unknown one the last, `other`.
    pub(crate) fn of(name: &str) -> &'static Self {
        &ERROR_CODES[Self::index(name)]
    }

    /// Its place in the table.
    pub(crate) fn index(name: &str) -> usize {
        let found = ERROR_CODES.iter().position(|known| known.name == name);
        found.unwrap_or(ERROR_CODES.len() - 1)
    }

    const fn telling(self, told: &'static str) -> Self {
        Self { told, ..self }
    }

    const fn advising(self, advice: &'static str) -> Self {
        Self { advice, ..self }
    }

    /// What happened to such requests, after their number.
    pub(crate) fn happened(&self) -> String {
        match self.told {
            "" => format!("were refused with {}", self.name),
            told => told.to_owned(),
        }
    }

    /// What an operator can do.
    pub(crate) fn advice(&self) -> String {
        match self.advice {
            "" => format!(
                "{} means: {}. The access log has each such request (log.access).",
                self.name, self.when
            ),
            advice => advice.to_owned(),
        }
    }
}

/// The entry of a code, while compiling: a name that is not in the table does not compile.
pub(crate) const fn row(name: &str) -> &'static ErrorCode {
    let mut at = 0;
    while !is_same(ERROR_CODES[at].name, name) {
        at += 1;
    }
    &ERROR_CODES[at]
}

const fn is_same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}

// === impl Blame ===

impl Blame {
    /// Whether the gateway or its backends failed a sound request.
    pub(crate) const fn is_ours(self) -> bool {
        self.is_capacity() || matches!(self, Self::Backend | Self::Storage | Self::Gateway)
    }

    /// Whether requests waited in vain, or had no place to wait.
    pub(crate) const fn is_capacity(self) -> bool {
        matches!(self, Self::Time | Self::Place | Self::Busy)
    }
}
