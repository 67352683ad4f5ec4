//! The status of a batch, with the names of OpenAI's API.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

/// The status of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// The input file is being read.
    #[default]
    Validating,
    /// The input file is invalid.
    Failed,
    /// The requests are being sent.
    InProgress,
    /// The result files are being written.
    Finalizing,
    /// All requests have a response, successful or not.
    Completed,
    /// The deadline passed before all requests had a response.
    Expired,
    /// A client cancelled the batch; requests that were sent may still get a response.
    Cancelling,
    /// The batch was cancelled.
    Cancelled,
}

const NAMES: [(Status, &str); 8] = [
    (Status::Validating, "validating"),
    (Status::Failed, "failed"),
    (Status::InProgress, "in_progress"),
    (Status::Finalizing, "finalizing"),
    (Status::Completed, "completed"),
    (Status::Expired, "expired"),
    (Status::Cancelling, "cancelling"),
    (Status::Cancelled, "cancelled"),
];

// === impl Status ===

impl Status {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(status, _)| *status == self).map_or("", |(_, name)| *name)
    }
}

impl FromSql for Status {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        let found = NAMES.iter().find(|(_, name)| *name == text).map(|(status, _)| *status);
        found.ok_or(FromSqlError::InvalidType)
    }
}

impl ToSql for Status {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.name().into())
    }
}
