//! The calls of the Batch API.

use std::net::IpAddr;
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
use crate::ingress::headers::{self, fresh_id};
use crate::ingress::paging::Paging;
use crate::ingress::path::{BatchCall, object_id};
use crate::ingress::{Caller, Sender, address};
use crate::reply::{Fault, forbid_sniffing};

/// The largest page of a list, and the default.
const FILES: (usize, usize) = (10_000, 10_000);
const BATCHES: (usize, usize) = (100, 20);

/// A response of the Batch API.
#[derive(Debug)]
pub(crate) enum BatchResponse {
    Whole(Response<Full<Bytes>>),
    File(Response<Download>),
}

/// A call and its client. The configuration says which headers the requests of a batch keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) config: &'a Config,
    pub(crate) caller: Option<&'a Caller>,
    /// Its address, where it is known.
    pub(crate) peer: Option<IpAddr>,
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
        (caller, peer): (Option<&Caller>, Option<IpAddr>),
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
        let slot = self.uploads.take(owner(caller), peer).ok_or(Fault::Overloaded)?;
        Ok(Upload::new(Arc::clone(self), boundary, slot))
    }

    /// Answers a call with a complete body; uploads are separate.
    pub(crate) async fn answer(
        &self,
        call: BatchCall,
        Sent { parts, config, caller, peer }: Sent<'_>,
        body: &[u8],
        now: Moment,
    ) -> Result<BatchResponse, Fault> {
        let id = object_id(parts.uri.path());
        let owner = owner(caller);
        let page = |sizes| Paging::read(parts.uri.query()).map(|paging| page(paging, sizes, owner));
        let whole = match call {
            BatchCall::Content => {
                let file = self.seen_file(id, owner).await?;
                return self.content(&file).await.map(BatchResponse::File);
            }
            BatchCall::Files => self.files(page(FILES)?).await?,
            BatchCall::File => {
                objects::response(&FileObject::of(&self.seen_file(id, owner).await?))
            }
            BatchCall::DeleteFile => {
                self.seen_file(id, owner).await?;
                self.delete(id).await?
            }
            BatchCall::Create => {
                let sender = Sender::of(config, &parts.headers, caller);
                let address = peer.filter(|_| caller.is_none()).map(address::name);
                let client = BatchClient { owner, address: address.unwrap_or_default() };
                self.create(CreateBatch::read(body)?, (sender, client), now).await?
            }
            BatchCall::Batches => self.batches(page(BATCHES)?).await?,
            BatchCall::Batch => {
                objects::response(&BatchObject::of(&self.seen_batch(id, owner).await?))
            }
            BatchCall::Cancel => {
                self.seen_batch(id, owner).await?;
                self.cancel(id, now).await?
            }
            BatchCall::OtherMethod(methods) => return Err(Fault::MethodNotAllowed(methods)),
            BatchCall::Upload => return Err(Fault::Internal),
        };
        Ok(BatchResponse::Whole(whole))
    }

    async fn files(&self, page: ListQuery) -> Result<Response<Full<Bytes>>, Fault> {
        let listed = self.ledger.files(page).await;
        let listed = listed.map_err(|error| faults::ledger(&error))?;
        listed.map(|listed| objects::files(&listed)).ok_or_else(unknown_cursor)
    }

    /// A file that a client may see. To others it does not exist.
    async fn seen_file(&self, id: &str, owner: &str) -> Result<File, Fault> {
        let found = self.ledger.file(id).await.map_err(|error| faults::ledger(&error))?;
        let seen = found.filter(|file| file.is_seen_by(owner));
        seen.ok_or_else(|| Fault::FileNotFound(shown(id)))
    }

    /// A batch that a client may see. To others it does not exist.
    async fn seen_batch(&self, id: &str, owner: &str) -> Result<Batch, Fault> {
        let found = self.ledger.batch(id).await.map_err(|error| faults::ledger(&error))?;
        let seen = found.filter(|batch| batch.is_seen_by(owner));
        seen.ok_or_else(|| Fault::BatchNotFound(shown(id)))
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

    /// The content of a file. Only an id of the ledger becomes a path.
    async fn content(&self, file: &File) -> Result<Response<Download>, Fault> {
        let opened = Download::open(self.files.path(&file.id)).await;
        let (download, length) = opened.map_err(|error| faults::disk(&error))?;
        let mut response = Response::new(download);
        let bytes = HeaderValue::from_static("application/octet-stream");
        response.headers_mut().insert(header::CONTENT_TYPE, bytes);
        response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
        forbid_sniffing(response.headers_mut());
        Ok(response)
    }

    async fn create(
        &self,
        request: CreateBatch,
        (sender, client): (Sender, BatchClient<'_>),
        now: Moment,
    ) -> Result<Response<Full<Bytes>>, Fault> {
        let keep = self.settings.keep;
        let batch = Batch {
            id: format!("{}{}", store::BATCH_ROUTE, fresh_id()),
            endpoint: request.endpoint,
            input: request.input,
            window: request.window,
            tenant: sender.tenant,
            owner: client.owner.to_owned(),
            address: client.address,
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

    async fn batches(&self, page: ListQuery) -> Result<Response<Full<Bytes>>, Fault> {
        let listed = self.ledger.batches(page).await;
        let listed = listed.map_err(|error| faults::ledger(&error))?;
        listed.map(|listed| objects::batches(&listed)).ok_or_else(unknown_cursor)
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

/// The client that creates a batch.
struct BatchClient<'a> {
    owner: &'a str,
    /// Its address, if there are no tenants.
    address: String,
}

/// The client that owns what it makes, by name; empty without tenants.
fn owner(caller: Option<&Caller>) -> &str {
    caller.map_or("", |caller| &caller.tenant.name)
}

fn page(paging: Paging, (most, usual): (usize, usize), owner: &str) -> ListQuery {
    let Paging { after, limit, oldest_first, purpose } = paging;
    let limit = limit.unwrap_or(usual).min(most);
    let owner = Some(owner.to_owned()).filter(|owner| !owner.is_empty());
    ListQuery { after, limit, oldest_first, purpose, owner }
}

fn unknown_cursor() -> Fault {
    Fault::InvalidField("after", "'after' is nothing that is in this list.".into())
}

/// An id, cut for an error message.
fn shown(id: &str) -> String {
    id.chars().take(64).collect()
}
