//! ResponseStream an answer: piece by piece as the tokens come, or at once when they all have.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::api::ApiResponse;
use super::body::Body;
use super::connection::{ConnectionFault, Ending};
use super::control::RequestGuard;
use super::handler::{document, typed};
use super::machine::JobHandle;

/// An answer, its place in the machine, and what goes wrong on the way.
#[derive(Debug)]
pub(super) struct ResponseStream {
    pub(super) answer: ApiResponse,
    pub(super) job: JobHandle,
    pub(super) guard: RequestGuard,
    pub(super) fault_line: Arc<ConnectionFault>,
    pub(super) began: Instant,
    /// The connection is reset after so many tokens.
    pub(super) reset_after: Option<u32>,
}

/// The client or the machine is gone.
struct Gone;

// === impl ResponseStream ===

impl ResponseStream {
    pub(super) async fn respond(mut self) -> Response<Body> {
        if !self.answer.request.stream {
            return self.whole().await;
        }
        // The head leaves with the first token, as a real engine's does.
        self.first().await;
        let api = self.answer.request.api;
        let (sender, body) = Body::pieces();
        tokio::spawn(self.stream(sender));
        typed(api.stream_type(), body)
    }

    /// Waits for the first token.
    async fn first(&mut self) -> Option<u32> {
        let there = self.job.beyond(0).await;
        self.answer.first = self.began.elapsed();
        there
    }

    async fn whole(mut self) -> Response<Body> {
        let mut there = self.first().await;
        let all = self.answer.pieces.len() as u32;
        while let Some(tokens) = there.filter(|tokens| *tokens < all) {
            self.reset_if_due(tokens).await;
            there = self.job.beyond(tokens).await;
        }
        self.reset_if_due(all).await;
        self.answer.total = self.began.elapsed();
        let response = document(200, &self.answer.whole());
        self.guard.complete();
        response
    }

    /// Sends everything, unless the client leaves: then its job is given up at once.
    async fn stream(mut self, sender: mpsc::Sender<Bytes>) {
        let told = tokio::select! {
            told = self.pieces(&sender) => told,
            () = sender.closed() => Err(Gone),
        };
        if told.is_err() {
            return;
        }
        self.answer.total = self.began.elapsed();
        // The place is free before the client can know that its answer has ended.
        let Self { answer, job, guard, .. } = self;
        drop(job);
        guard.complete();
        // A client that leaves now has had its answer.
        let _ = send(&sender, answer.closing()).await;
    }

    /// Sends the pieces as they come.
    async fn pieces(&mut self, sender: &mpsc::Sender<Bytes>) -> Result<(), Gone> {
        send(sender, self.answer.opening()).await?;
        let all = self.answer.pieces.len();
        let mut told = 0;
        while told < all {
            let there = self.job.beyond(told as u32).await.ok_or(Gone)? as usize;
            for at in told..all.min(there) {
                self.reset_if_due(at as u32).await;
                send(sender, [self.answer.piece(at)]).await?;
            }
            told = all.min(there);
        }
        self.reset_if_due(all as u32).await;
        Ok(())
    }

    async fn reset_if_due(&mut self, told: u32) {
        if self.reset_after.is_some_and(|after| told >= after) {
            self.guard.fail();
            // What was sent leaves before the reset does.
            sleep(Duration::from_millis(1)).await;
            self.fault_line.end(Ending::Reset).await
        }
    }
}

async fn send(
    sender: &mpsc::Sender<Bytes>,
    chunks: impl IntoIterator<Item = Bytes>,
) -> Result<(), Gone> {
    for chunk in chunks.into_iter().filter(|chunk| !chunk.is_empty()) {
        sender.send(chunk).await.map_err(|_| Gone)?;
    }
    Ok(())
}
