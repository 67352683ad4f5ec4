//! A batch object of the API, and its display for people.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::Value;

use super::api::ApiError;
use crate::cli::plain;

/// The most validation errors that are printed: more of them usually have one cause.
pub(super) const ERRORS_SHOWN: usize = 20;

/// A batch.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct BatchInfo {
    pub(super) id: String,
    pub(super) status: String,
    endpoint: String,
    input_file_id: String,
    completion_window: String,
    created_at: u64,
    expires_at: Option<u64>,
    pub(super) output_file_id: Option<String>,
    pub(super) error_file_id: Option<String>,
    #[serde(default)]
    pub(super) request_counts: RequestCounts,
    errors: Option<ErrorList>,
    metadata: Option<BTreeMap<String, Value>>,
    /// The JSON as received. Control characters are replaced in all other fields.
    #[serde(skip)]
    pub(super) raw: Value,
}

/// The request counts of a batch.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct RequestCounts {
    pub(super) total: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct ErrorList {
    data: Vec<ValidationError>,
}

#[derive(Clone, Debug, Deserialize)]
struct ValidationError {
    #[serde(default)]
    code: String,
    message: String,
    line: Option<u64>,
}

/// A line about the errors that are not printed. The last error may say that the rest of the file
/// was not checked.
pub(super) fn unshown(total: usize, last: &str) -> Option<String> {
    let stopped = last == "too_many_errors";
    let hidden = (total - usize::from(stopped)).saturating_sub(ERRORS_SHOWN);
    match (hidden, stopped) {
        (0, _) => None,
        (hidden, true) => Some(format!("and at least {hidden} more: the rest was not checked")),
        (hidden, false) => Some(format!("and {hidden} more")),
    }
}

/// Prints one line per batch.
pub(super) fn table(batches: &[BatchInfo], out: &mut dyn Write) -> io::Result<()> {
    if batches.is_empty() {
        return writeln!(out, "no batches yet: submit one with tidegate batch submit FILE.jsonl");
    }
    let width = batches.iter().map(|batch| batch.id.len()).max().unwrap_or_default();
    writeln!(out, "{:width$}  {:11}  {:>15}  {:>8}  CREATED", "BATCH", "STATUS", "DONE", "FAILED")?;
    for batch in batches {
        let RequestCounts { total, failed, .. } = batch.request_counts;
        let done = format!("{}/{total}", batch.done());
        let (id, status, age) = (&batch.id, &batch.status, batch.age());
        writeln!(out, "{id:width$}  {status:11}  {done:>15}  {failed:>8}  {age} ago")?;
    }
    Ok(())
}

// === impl BatchInfo ===

impl BatchInfo {
    pub(super) fn read(raw: Value) -> Result<Self, ApiError> {
        let info: Result<Self, _> = serde_json::from_value(plain::value(raw.clone()));
        let unexpected = |error: serde_json::Error| {
            ApiError::Refused(format!("the gateway's response is not a batch: {error}"))
        };
        Ok(Self { raw, ..info.map_err(unexpected)? })
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "failed" | "expired" | "cancelled")
    }

    /// Whether its requests are being sent.
    pub(super) fn is_in_progress(&self) -> bool {
        self.status == "in_progress"
    }

    pub(super) fn is_all_good(&self) -> bool {
        self.status == "completed" && self.request_counts.failed == 0
    }

    pub(super) fn done(&self) -> u64 {
        self.request_counts.completed.saturating_add(self.request_counts.failed)
    }

    /// The results of its requests. Expired and cancelled requests count as failed.
    pub(super) fn tally(&self) -> String {
        let RequestCounts { completed, failed, .. } = self.request_counts;
        let reason = match self.status.as_str() {
            "cancelling" | "cancelled" if failed > 0 => " or cancelled",
            "expired" if failed > 0 => " or expired",
            _ => "",
        };
        format!("{completed} answered, {failed} failed{reason}")
    }

    /// The validation errors of its input file, for people.
    pub(super) fn errors(&self) -> Vec<String> {
        let all = self.errors.as_ref().map(|errors| errors.data.as_slice()).unwrap_or_default();
        let shown = all.iter().take(ERRORS_SHOWN).map(|error| match error.line {
            Some(line) => format!("line {line}: {}", error.message),
            None => error.message.clone(),
        });
        let mut shown: Vec<String> = shown.collect();
        let last = all.last().map(|error| error.code.as_str()).unwrap_or_default();
        shown.extend(unshown(all.len(), last));
        shown
    }

    /// Prints the batch as JSON or as text.
    pub(super) fn show(&self, out: &mut dyn Write, json: bool) -> io::Result<()> {
        if json {
            return writeln!(out, "{:#}", self.raw);
        }
        writeln!(out, "batch    {}", self.id)?;
        writeln!(out, "status   {}", self.status)?;
        writeln!(out, "requests {}: {}", self.request_counts.total, self.tally())?;
        writeln!(out, "sent to  {}", self.endpoint)?;
        writeln!(
            out,
            "created  {} ago, within {}{}",
            self.age(),
            self.completion_window,
            self.left()
        )?;
        for (key, value) in self.metadata.iter().flatten() {
            writeln!(out, "metadata {key}={}", value.as_str().unwrap_or(&value.to_string()))?;
        }
        writeln!(out, "input    {}", self.input_file_id)?;
        for (name, file) in [("output", &self.output_file_id), ("errors", &self.error_file_id)] {
            if let Some(file) = file {
                writeln!(out, "{name}   {file}")?;
            }
        }
        for error in self.errors() {
            writeln!(out, "         {error}")?;
        }
        Ok(())
    }

    fn age(&self) -> String {
        duration(now().saturating_sub(self.created_at))
    }

    fn left(&self) -> String {
        let left = self.expires_at.map(|expires| expires.saturating_sub(now()));
        match left.filter(|_| !self.has_ended()) {
            Some(left) => format!(", {} left", duration(left)),
            None => String::new(),
        }
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs()
}

/// Formats seconds in the largest unit that keeps two digits.
fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(in crate::cli::batch) fn info(status: &str, counts: [u64; 3]) -> BatchInfo {
        let [total, completed, failed] = counts;
        let raw = json!({"id": "batch_1", "status": status, "endpoint": "/v1/completions",
            "input_file_id": "file-1", "completion_window": "24h", "created_at": 1,
            "expires_at": null, "output_file_id": "file-2", "error_file_id": null,
            "metadata": {"team": "search", "run": 7},
            "request_counts": {"total": total, "completed": completed, "failed": failed},
            "errors": {"data": [{"message": "wrong", "line": 3}, {"message": "empty"}]}});
        BatchInfo::read(raw).unwrap()
    }

    #[test]
    fn d10_a_batch_is_printed_as_text_and_as_json() {
        let batch = info("completed", [3, 2, 1]);
        let mut out = Vec::new();
        batch.show(&mut out, false).unwrap();
        let text = String::from_utf8(out).unwrap();
        for part in [
            "batch_1",
            "3: 2 answered, 1 failed",
            "line 3: wrong",
            "metadata team=search",
            "metadata run=7",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let mut out = Vec::new();
        batch.show(&mut out, true).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), batch.raw);
        let mut out = Vec::new();
        table(&[batch], &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("3/3"));
    }

    #[test]
    fn d10_only_a_batch_without_failures_is_all_good() {
        assert!(info("completed", [2, 2, 0]).is_all_good());
        assert!(!info("completed", [2, 1, 1]).is_all_good());
        assert!(!info("expired", [2, 2, 0]).is_all_good());
        assert!(info("cancelled", [0, 0, 0]).has_ended());
        assert!(!info("cancelling", [0, 0, 0]).has_ended());
    }

    #[test]
    fn d10_expired_and_cancelled_requests_are_named_beside_failed_ones() {
        assert_eq!(info("cancelled", [3, 1, 2]).tally(), "1 answered, 2 failed or cancelled");
        assert_eq!(info("expired", [3, 1, 2]).tally(), "1 answered, 2 failed or expired");
        assert_eq!(info("cancelled", [3, 3, 0]).tally(), "3 answered, 0 failed");
        assert_eq!(info("completed", [3, 1, 2]).tally(), "1 answered, 2 failed");
    }

    #[test]
    fn d10_unchecked_lines_are_not_counted_as_errors() {
        assert_eq!(unshown(20, ""), None);
        assert_eq!(unshown(25, "").unwrap(), "and 5 more");
        let expected = "and at least 80 more: the rest was not checked";
        assert_eq!(unshown(101, "too_many_errors").unwrap(), expected);
        assert_eq!(unshown(0, ""), None);
    }

    #[test]
    fn durations_are_printed_in_the_largest_useful_unit() {
        let printed = [0, 119, 120, 7199, 7200, 172_799, 172_800].map(duration);
        assert_eq!(printed, ["0s", "119s", "2m", "119m", "2h", "47h", "2d"]);
    }
}
