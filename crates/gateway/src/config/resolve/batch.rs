//! The section `batch`.

use crate::config::settings::dispatch::Batch;
use crate::schema::Section;

/// The queue of the Batch API.
pub const BATCH_QUEUE: &str = "batch";

pub(in crate::config) fn batch(section: &Section<'_>) -> Batch {
    Batch {
        folder: section.path("folder"),
        file_limit: section.get("file_limit"),
        files_limit: section.get("files_limit"),
        lines_max: section.get("lines_max"),
        line_limit: section.get("line_limit"),
        keep: section.get("keep"),
    }
}
