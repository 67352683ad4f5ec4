//! The body of a file download. The record of the call ends with the last byte. If the client
//! disconnects before, the record says so.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::response_writer::Delivered;
use crate::batch_api::Download;
use crate::reply::Fault;
use crate::request::{DeliveryRecord, RequestRecord};

/// See the module's description.
#[derive(Debug)]
pub(super) struct RecordedDownload {
    file: Download,
    /// Until the end.
    record: Option<RequestRecord>,
    /// Whether the record outlives the body, until the client has read it.
    is_awaited: bool,
}

// === impl RecordedDownload ===

impl RecordedDownload {
    /// `bare` means that only the head is asked for.
    pub(super) fn new(file: Download, record: RequestRecord, bare: bool) -> Self {
        let mut download = Self { file, record: Some(record), is_awaited: false };
        // hyper does not poll an empty body.
        if bare || download.file.is_end_stream() {
            download.complete();
        }
        download
    }

    fn passed(&mut self, frame: &Frame<Bytes>) {
        if let (Some(data), Some(record)) = (frame.data_ref(), &mut self.record) {
            record.bytes_out += data.len() as u64;
        }
        if self.file.is_end_stream() {
            self.complete();
        }
    }

    fn complete(&mut self) {
        if self.is_awaited {
            return;
        }
        if let Some(record) = self.record.take() {
            let now = record.now();
            record.succeed(now);
        }
    }
}

impl Delivered for RecordedDownload {
    fn await_delivery(&mut self) {
        self.is_awaited = true;
    }

    fn take_record(&mut self) -> Option<DeliveryRecord> {
        self.record.take().map(DeliveryRecord::new)
    }

    fn stalled(&mut self) {
        if let Some(mut record) = self.record.take() {
            record.stalled();
        }
    }
}

impl Body for RecordedDownload {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let download = self.get_mut();
        let next = ready!(Pin::new(&mut download.file).poll_frame(context));
        match &next {
            Some(Ok(frame)) => download.passed(frame),
            Some(Err(_)) => {
                if let Some(record) = download.record.take() {
                    record.fail(&Fault::Internal);
                }
            }
            None => download.complete(),
        }
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        self.file.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.file.size_hint()
    }
}
