//! The section `batch`.

use super::{DAY, GIB, KIB, SECOND, TIB, count, duration, size};
use crate::schema::ValueType::Path;
use crate::schema::{SectionSchema, key};

pub(in crate::config) const BATCH: SectionSchema = SectionSchema::new(
    "batch",
    &[
        key(
            "folder",
            Path,
            "The folder of files, batches and their queue. It is created if it does not exist. \
             Without it there is no Batch API.",
        )
        .restart(),
        key("file_limit", size(KIB, TIB), "The largest file.").default("200MiB").restart(),
        key(
            "files_limit",
            size(KIB, 1 << 50),
            "All files together. The files of one tenant may take a fourth of it.",
        )
        .default("20GiB")
        .restart(),
        key("lines_max", count(1, 10_000_000), "Requests in a batch.").default("50000").restart(),
        key("line_limit", size(KIB, GIB), "The longest line of a batch.").default("8MiB").restart(),
        key(
            "keep",
            duration(SECOND, DAY.saturating_mul(3650)),
            "How long finished batches and their files are kept.",
        )
        .default("30d")
        .restart(),
    ],
)
.doc("The Batch API (docs/BATCH.md).");
