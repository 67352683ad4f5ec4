//! How a batch stands, in the words of OpenAI's API.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

/// How a batch stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Its file is being read.
    #[default]
    Validating,
    /// Its file is wrong.
    Failed,
    /// Its requests wait, are sent and are answered.
    InProgress,
    /// Its files are being written.
    Finalizing,
    /// All its requests were answered, well or badly.
    Completed,
    /// Its time was over before all were answered.
    Expired,
    /// Somebody wanted it cancelled; what is being sent may still end.
    Cancelling,
    /// It was.
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
    /// Its name outside.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(status, _)| *status == self).map_or("", |(_, name)| *name)
    }

    /// Whether nothing more will happen.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Failed | Self::Completed | Self::Expired | Self::Cancelled)
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
