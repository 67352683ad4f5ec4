//! The JSON objects of files and batches, in the format of OpenAI's API.

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use serde_json::value::RawValue;
use store::Moment;
use store::ledger::{Batch, File, Listed, Status};

use crate::reply::json;

#[derive(Serialize)]
pub(super) struct FileObject<'a> {
    id: &'a str,
    object: &'static str,
    bytes: u64,
    created_at: u64,
    expires_at: u64,
    filename: &'a str,
    purpose: &'a str,
    status: &'static str,
}

#[derive(Serialize)]
pub(super) struct DeletedObject<'a> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) deleted: bool,
}

#[derive(Serialize)]
pub(super) struct BatchObject<'a> {
    id: &'a str,
    object: &'static str,
    endpoint: &'a str,
    model: Option<&'a str>,
    errors: Option<ErrorList<'a>>,
    input_file_id: &'a str,
    completion_window: &'a str,
    status: &'static str,
    output_file_id: Option<&'a str>,
    error_file_id: Option<&'a str>,
    created_at: u64,
    in_progress_at: Option<u64>,
    expires_at: u64,
    finalizing_at: Option<u64>,
    completed_at: Option<u64>,
    failed_at: Option<u64>,
    expired_at: Option<u64>,
    cancelling_at: Option<u64>,
    cancelled_at: Option<u64>,
    request_counts: RequestCounts,
    metadata: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct ErrorList<'a> {
    object: &'static str,
    data: &'a RawValue,
}

#[derive(Serialize)]
struct RequestCounts {
    total: u64,
    completed: u64,
    failed: u64,
}

#[derive(Serialize)]
struct ListObject<'a, T> {
    object: &'static str,
    data: Vec<T>,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
    has_more: bool,
}

/// A page of files.
pub(super) fn files(listed: &Listed<File>) -> Response<Full<Bytes>> {
    let id = |file: Option<&File>| file.map(|file| file.id.clone());
    let ends = (id(listed.rows.first()), id(listed.rows.last()));
    list(listed.rows.iter().map(FileObject::of).collect(), &ends, listed.more)
}

/// A page of batches.
pub(super) fn batches(listed: &Listed<Batch>) -> Response<Full<Bytes>> {
    let id = |batch: Option<&Batch>| batch.map(|batch| batch.id.clone());
    let ends = (id(listed.rows.first()), id(listed.rows.last()));
    list(listed.rows.iter().map(BatchObject::of).collect(), &ends, listed.more)
}

fn list<T: Serialize>(
    data: Vec<T>,
    (first, last): &(Option<String>, Option<String>),
    has_more: bool,
) -> Response<Full<Bytes>> {
    let (first_id, last_id) = (first.as_deref(), last.as_deref());
    response(&ListObject { object: "list", data, first_id, last_id, has_more })
}

/// The response with an object.
pub(super) fn response(object: &impl Serialize) -> Response<Full<Bytes>> {
    json(StatusCode::OK, object)
}

// === impl FileObject ===

impl<'a> FileObject<'a> {
    pub(super) fn of(file: &'a File) -> Self {
        Self {
            id: &file.id,
            object: "file",
            bytes: file.bytes,
            created_at: file.created.secs(),
            expires_at: file.expires.secs(),
            filename: &file.name,
            purpose: &file.purpose,
            status: "processed",
        }
    }
}

// === impl BatchObject ===

impl<'a> BatchObject<'a> {
    pub(super) fn of(batch: &'a Batch) -> Self {
        let raw = |text: &'a Option<String>| serde_json::from_str(text.as_deref()?).ok();
        let secs = |moment: Option<Moment>| moment.map(Moment::secs);
        let ended = |status| secs(batch.times.ended.filter(|_| batch.status == status));
        let counts = batch.counts;
        Self {
            id: &batch.id,
            object: "batch",
            endpoint: &batch.endpoint,
            model: batch.model.as_deref(),
            errors: raw(&batch.flaws).map(|data| ErrorList { object: "list", data }),
            input_file_id: &batch.input,
            completion_window: &batch.window,
            status: batch.status.name(),
            output_file_id: batch.output.as_deref(),
            error_file_id: batch.failures.as_deref(),
            created_at: batch.created.secs(),
            in_progress_at: secs(batch.times.in_progress),
            expires_at: batch.deadline.secs(),
            finalizing_at: secs(batch.times.finalizing),
            completed_at: ended(Status::Completed),
            failed_at: ended(Status::Failed),
            expired_at: ended(Status::Expired),
            cancelling_at: secs(batch.times.cancelling),
            cancelled_at: ended(Status::Cancelled),
            request_counts: RequestCounts {
                total: counts.total,
                completed: counts.completed,
                failed: counts.failed,
            },
            metadata: raw(&batch.metadata),
        }
    }
}
