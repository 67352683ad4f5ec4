//! The HTTP side of the Batch API: reads calls and uploads, and sends its responses.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;

use super::request_body::{self, Arriving, Whole};
use crate::batch_api::{BatchResponse, Batches, Sent, Upload};
use crate::body_memory::BodyHolder;
use crate::clock;
use crate::durable_queues::DurableQueues;
use crate::ingress;
use crate::ingress::path::BatchCall;
use crate::reply::Fault;
use crate::state::State;

/// How long the rest of a refused upload is read. A client does not read while it sends; if the
/// connection were closed at once, it might never see why.
const LINGER: Duration = Duration::from_secs(10);

/// Responds to a call, and counts the bytes of an upload as they come.
pub(super) async fn answer(
    state: &State,
    durable_queues: Option<&DurableQueues>,
    call: BatchCall,
    (sender, body): (Sent<'_>, Incoming),
    received: &mut u64,
) -> Result<BatchResponse, Fault> {
    let batches = durable_queues.ok_or(Fault::BatchDisabled).and_then(DurableQueues::batches);
    match (batches, call) {
        (_, BatchCall::OtherMethod(methods)) => Err(Fault::MethodNotAllowed(methods)),
        (Err(fault), _) => Err(fault),
        (Ok(batches), BatchCall::Upload) => upload(state, batches, (sender, body), received).await,
        (Ok(batches), BatchCall::Create) => {
            let (bytes, _held) = collect(state, sender, body).await?;
            batches.answer(call, sender, &bytes, clock::moment()).await
        }
        (Ok(batches), _) => batches.answer(call, sender, &Bytes::new(), clock::moment()).await,
    }
}

/// Collects a body that is not a file.
async fn collect(state: &State, sender: Sent<'_>, body: Incoming) -> Result<Whole, Fault> {
    let tenant = sender.caller.map(|caller| caller.tenant.name.as_str());
    let holder = (state, BodyHolder::of(tenant, sender.peer));
    request_body::collect_decoded(&sender.parts.headers, body, holder).await
}

async fn upload(
    state: &State,
    batches: &Arc<Batches>,
    (sender, body): (Sent<'_>, Incoming),
    received: &mut u64,
) -> Result<BatchResponse, Fault> {
    let mut arriving = Arriving::new(body, state.config.load().server.body_timeout);
    let taken = tokio::select! {
        taken = take(batches, sender, &mut arriving, received) => taken,
        () = state.closing() => return Err(Fault::ShuttingDown),
    };
    match taken {
        Ok(upload) => upload.finish(clock::moment()).await.map(BatchResponse::uploaded),
        Err(fault) if ingress::headers::expects_word(&sender.parts.headers) => Err(fault),
        Err(fault) => {
            let _ = tokio::time::timeout(LINGER, pass_over(arriving)).await;
            Err(fault)
        }
    }
}

/// Reads the rest of a body and drops it.
async fn pass_over(mut arriving: Arriving) {
    while let Ok(Some(_)) = arriving.next().await {}
}

async fn take(
    batches: &Arc<Batches>,
    sender: Sent<'_>,
    arriving: &mut Arriving,
    received: &mut u64,
) -> Result<Upload, Fault> {
    let client = (sender.caller, sender.peer);
    let mut upload = batches.upload(&sender.parts.headers, arriving.announced(), client)?;
    while let Some(bytes) = arriving.next().await? {
        *received += bytes.len() as u64;
        upload.take(&bytes).await?;
    }
    Ok(upload)
}
