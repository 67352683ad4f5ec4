//! Waits for a batch to end, also across restarts of its gateway.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

use super::api::{Api, ApiError};
use super::batch_info::BatchInfo;
use super::wait_output::Progress;
use super::wait_stall::{StallTimer, reasons};

/// The exit code after Ctrl-C.
pub(super) const INTERRUPTED: u8 = 130;
/// The interval between two requests for the status, at first and later.
const POLL_MIN: Duration = Duration::from_millis(500);
const POLL_MAX: Duration = Duration::from_secs(5);
/// How long a gateway may be unavailable: it may restart on another machine.
const OUTAGE_MAX: Duration = Duration::from_secs(600);

/// Waits until a batch has ended. Returns `None` after Ctrl-C.
pub(super) async fn until_end(api: &Api, batch: BatchInfo) -> Result<Option<BatchInfo>> {
    let mut progress = Progress::requests();
    let id = batch.id.clone();
    tokio::select! {
        ended = poll(api, batch, &mut progress) => ended.map(Some),
        _ = tokio::signal::ctrl_c() => {
            let wait = api.command(&format!("status {id} --watch"));
            let cancel = api.command(&format!("cancel {id}"));
            progress.say(&format!("the batch continues; wait with {wait}, cancel with {cancel}"));
            Ok(None)
        }
    }
}

async fn poll(api: &Api, mut batch: BatchInfo, progress: &mut Progress) -> Result<BatchInfo> {
    let mut pause = POLL_MIN;
    let mut stall = StallTimer::new(Instant::now());
    loop {
        show(&batch, progress);
        if batch.has_ended() {
            return Ok(batch);
        }
        if stall.is_due(&batch, Instant::now()) {
            progress.say(&format!("no progress: {}", reasons(api).await.join("; ")));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 5 / 4).min(POLL_MAX);
        batch = retrieve(api, &batch.id, progress).await?;
    }
}

fn show(batch: &BatchInfo, progress: &mut Progress) {
    let counts = batch.request_counts;
    let note = match counts.failed {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    progress.show(&batch.status, batch.done(), counts.total, &note);
}

/// Retrieves a batch, and tries again while the gateway is unavailable.
async fn retrieve(api: &Api, id: &str, progress: &Progress) -> Result<BatchInfo> {
    let mut since: Option<Instant> = None;
    loop {
        let why = match api.batch(id).await {
            Ok(batch) => return Ok(batch),
            Err(ApiError::Unreachable(why) | ApiError::Unavailable(why)) => why,
            Err(refused) => return Err(refused.into()),
        };
        match since {
            None => {
                progress.say(&format!("{why}; trying again"));
                since = Some(Instant::now());
            }
            Some(since) if since.elapsed() > OUTAGE_MAX => {
                bail!("{why}, for {} minutes now", OUTAGE_MAX.as_secs() / 60)
            }
            Some(_) => {}
        }
        tokio::time::sleep(POLL_MIN).await;
    }
}
