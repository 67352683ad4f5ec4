//! The calls of the Batch API.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::Full;
use store::Moment;
use store::ledger::{Added, Batch, File, ListQuery, Removed};

use super::create_request::CreateBatch;
use super::objects::{self, BatchObject, DeletedObject, FileObject};
use super::{Batches, Download, Upload, faults, upload};
use crate::config::settings::Config;
use crate::ingress::Sender;
use crate::ingress::headers::{self, fresh_id};
use crate::ingress::paging::Paging;
use crate::ingress::path::{BatchCall, object_id};
use crate::reply::Fault;

/// The largest page of a list, and the default.
const FILES: (usize, usize) = (10_000, 10_000);
const BATCHES: (usize, usize) = (100, 20);

/// A response of the Batch API.
#[derive(Debug)]
pub(crate) enum BatchResponse {
    Whole(Response<Full<Bytes>>),
    File(Response<Download>),
}

// === impl BatchResponse ===

impl BatchResponse {
    /// The response to an upload.
    pub(crate) fn uploaded(file: File) -> Self {
        Self::Whole(objects::response(&FileObject::of(&file)))
    }
}

// === impl Batches ===

impl Batches {
    /// Starts an upload with the announced number of bytes.
    pub(crate) fn upload(
        self: &Arc<Self>,
        headers: &HeaderMap,
        announced: u64,
    ) -> Result<Upload, Fault> {
        let limit = self.settings.file_limit;
        if announced > limit.saturating_add(upload::OVERHEAD_MAX) {
            return Err(Fault::FileTooLarge(limit));
        }
        let Some(boundary) = headers::form_boundary(headers) else {
            let text =
                "Files are uploaded as multipart/form-data with the fields purpose and file.";
            return Err(Fault::InvalidRequest(text.into()));
        };
        let slot = Arc::clone(&self.uploads).try_acquire_owned();
        let slot = slot.map_err(|_| Fault::Overloaded)?;
        Ok(Upload::new(Arc::clone(self), boundary, slot))
    }

    /// Answers a call with a complete body; uploads are separate. The configuration says which
    /// headers the requests of a batch keep.
    pub(crate) async fn answer(
        &self,
        call: BatchCall,
        (parts, config): (&Parts, &Config),
        body: &[u8],
        now: Moment,
    ) -> Result<BatchResponse, Fault> {
        let id = object_id(parts.uri.path());
        let paging = || Paging::read(parts.uri.query());
        let whole = match call {
            BatchCall::Content => return self.content(id).await.map(BatchResponse::File),
            BatchCall::Files => self.files(paging()?).await?,
            BatchCall::File => self.file(id).await?,
            BatchCall::DeleteFile => self.delete(id).await?,
            BatchCall::Create => {
                let sender = Sender::of(config, &parts.headers);
                self.create(CreateBatch::read(body)?, sender, now).await?
            }
            BatchCall::Batches => self.batches(paging()?).await?,
            BatchCall::Batch => self.batch(id).await?,
            BatchCall::Cancel => self.cancel(id, now).await?,
            BatchCall::OtherMethod(methods) => return Err(Fault::MethodNotAllowed(methods)),
            BatchCall::Upload => return Err(Fault::Internal),
        };
        Ok(BatchResponse::Whole(whole))
    }

    async fn files(&self, paging: Paging) -> Result<Response<Full<Bytes>>, Fault> {
        let listed = self.ledger.files(page(paging, FILES)).await;
        let listed = listed.map_err(|error| faults::ledger(&error))?;
        listed.map(|listed| objects::files(&listed)).ok_or_else(unknown_cursor)
    }

    async fn file(&self, id: &str) -> Result<Response<Full<Bytes>>, Fault> {
        let found = self.ledger.file(id).await.map_err(|error| faults::ledger(&error))?;
        let file = found.ok_or_else(|| Fault::FileNotFound(shown(id)))?;
        Ok(objects::response(&FileObject::of(&file)))
    }

    async fn delete(&self, id: &str) -> Result<Response<Full<Bytes>>, Fault> {
        match self.discard(id).await? {
            Removed::Gone(_) => {
                Ok(objects::response(&DeletedObject { id, object: "file", deleted: true }))
            }
            Removed::Unknown => Err(Fault::FileNotFound(shown(id))),
            Removed::Used(batch) => Err(Fault::FileInUse(batch)),
        }
    }

    async fn content(&self, id: &str) -> Result<Response<Download>, Fault> {
        let found = self.ledger.file(id).await.map_err(|error| faults::ledger(&error))?;
        // Only an id of the ledger becomes a path.
        let file = found.ok_or_else(|| Fault::FileNotFound(shown(id)))?;
        let opened = Download::open(self.files.path(&file.id)).await;
        let (download, length) = opened.map_err(|error| faults::disk(&error))?;
        let mut response = Response::new(download);
        let bytes = HeaderValue::from_static("application/octet-stream");
        response.headers_mut().insert(header::CONTENT_TYPE, bytes);
        response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
        Ok(response)
    }

    async fn create(
        &self,
        request: CreateBatch,
        sender: Sender,
        now: Moment,
    ) -> Result<Response<Full<Bytes>>, Fault> {
        let keep = self.settings.keep;
        let batch = Batch {
            id: format!("{}{}", store::BATCH_ROUTE, fresh_id()),
            endpoint: request.endpoint,
            input: request.input,
            window: request.window,
            tenant: sender.tenant,
            headers: sender.headers,
            metadata: request.metadata,
            keep: request.lifetime.map_or(keep, |lifetime| lifetime.min(keep)),
            created: now,
            deadline: now.after(request.within),
            ..Batch::default()
        };
        let added = self.ledger.add_batch(batch.clone()).await;
        match added.map_err(|error| faults::ledger(&error))? {
            Added::Kept => {}
            Added::NoInput => {
                let text = "'input_file_id' is no file that was uploaded for batches.";
                return Err(Fault::InvalidField("input_file_id", text.into()));
            }
            Added::TooMany => {
                let text = "There are too many batches: wait until some have ended.";
                return Err(Fault::StorageFull(text.into()));
            }
        }
        tracing::info!(id = batch.id, input = batch.input, "batch created");
        self.changed.notify_one();
        Ok(objects::response(&BatchObject::of(&batch)))
    }

    async fn batches(&self, paging: Paging) -> Result<Response<Full<Bytes>>, Fault> {
        let listed = self.ledger.batches(page(paging, BATCHES)).await;
        let listed = listed.map_err(|error| faults::ledger(&error))?;
        listed.map(|listed| objects::batches(&listed)).ok_or_else(unknown_cursor)
    }

    async fn batch(&self, id: &str) -> Result<Response<Full<Bytes>>, Fault> {
        let found = self.ledger.batch(id).await.map_err(|error| faults::ledger(&error))?;
        let batch = found.ok_or_else(|| Fault::BatchNotFound(shown(id)))?;
        Ok(objects::response(&BatchObject::of(&batch)))
    }

    async fn cancel(&self, id: &str, now: Moment) -> Result<Response<Full<Bytes>>, Fault> {
        let found = self.ledger.begin_cancel(id, now).await;
        let found = found.map_err(|error| faults::ledger(&error))?;
        let (batch, changed) = found.ok_or_else(|| Fault::BatchNotFound(shown(id)))?;
        let was_cancelled = batch.times.cancelling.is_some();
        if !changed && !was_cancelled {
            return Err(Fault::BatchEnded(batch.status.name()));
        }
        if changed {
            tracing::info!(id, "batch cancelled");
            self.changed.notify_one();
        }
        Ok(objects::response(&BatchObject::of(&batch)))
    }
}

fn page(paging: Paging, (most, usual): (usize, usize)) -> ListQuery {
    let Paging { after, limit, oldest_first, purpose } = paging;
    ListQuery { after, limit: limit.unwrap_or(usual).min(most), oldest_first, purpose }
}

fn unknown_cursor() -> Fault {
    Fault::InvalidField("after", "'after' is nothing that is in this list.".into())
}

/// An id, cut for an error message.
fn shown(id: &str) -> String {
    id.chars().take(64).collect()
}
