//! Telling an answer: piece by piece as the tokens come, or at once when they all have.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::body::Body;
use super::control::Visit;
use super::line::{Ending, Rig};
use super::machine::Seat;
use super::serve::{document, typed};
use super::speak::Answer;

/// An answer, its place in the machine, and what goes wrong on the way.
#[derive(Debug)]
pub(super) struct Telling {
    pub(super) answer: Answer,
    pub(super) seat: Seat,
    pub(super) visit: Visit,
    pub(super) rig: Arc<Rig>,
    pub(super) began: Instant,
    /// The connection is reset after so many tokens.
    pub(super) reset_after: Option<u32>,
}

/// Nobody wants to hear the rest, or nobody is left to tell it.
struct Gone;

// === impl Telling ===

impl Telling {
    pub(super) async fn tell(mut self) -> Response<Body> {
        if !self.answer.question.stream {
            return self.whole().await;
        }
        // The head leaves with the first token, as a real engine's does.
        self.first().await;
        let dialect = self.answer.question.dialect;
        let (sender, body) = Body::pieces();
        tokio::spawn(self.stream(sender));
        typed(dialect.stream_type(), body)
    }

    /// Waits for the first token.
    async fn first(&mut self) -> Option<u32> {
        let there = self.seat.beyond(0).await;
        self.answer.first = self.began.elapsed();
        there
    }

    async fn whole(mut self) -> Response<Body> {
        let mut there = self.first().await;
        let all = self.answer.pieces.len() as u32;
        while let Some(tokens) = there.filter(|tokens| *tokens < all) {
            self.reset_if_due(tokens).await;
            there = self.seat.beyond(tokens).await;
        }
        self.reset_if_due(all).await;
        self.answer.total = self.began.elapsed();
        let response = document(200, &self.answer.whole());
        self.visit.complete();
        response
    }

    /// Sends everything, unless the client leaves: then its seat is given up at once.
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
        let Self { answer, seat, visit, .. } = self;
        drop(seat);
        visit.complete();
        // A client that leaves now has had its answer.
        let _ = send(&sender, answer.closing()).await;
    }

    /// Sends the pieces as they come.
    async fn pieces(&mut self, sender: &mpsc::Sender<Bytes>) -> Result<(), Gone> {
        send(sender, self.answer.opening()).await?;
        let all = self.answer.pieces.len();
        let mut told = 0;
        while told < all {
            let there = self.seat.beyond(told as u32).await.ok_or(Gone)? as usize;
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
            self.visit.fail();
            // What was sent leaves before the reset does.
            sleep(Duration::from_millis(1)).await;
            self.rig.end(Ending::Reset).await
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
