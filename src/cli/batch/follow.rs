//! Waiting for a batch, through whatever happens to its gateway meanwhile.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

use super::api::{Api, Problem};
use super::info::Info;
use super::meter::Meter;
use super::why::{Stillness, why};

/// The exit code of what was interrupted.
pub(super) const INTERRUPTED: u8 = 130;
/// How often a batch is asked for, at first and in the long run.
const OFTEN: Duration = Duration::from_millis(500);
const SELDOM: Duration = Duration::from_secs(5);
/// How long a gateway may be away: it may be started again, on another machine.
const AWAY_MAX: Duration = Duration::from_secs(600);

/// Waits until a batch has ended; nothing when somebody did not want to wait any more.
pub(super) async fn until_end(api: &Api, batch: Info) -> Result<Option<Info>> {
    let mut meter = Meter::requests();
    let id = batch.id.clone();
    tokio::select! {
        ended = follow(api, batch, &mut meter) => ended.map(Some),
        _ = tokio::signal::ctrl_c() => {
            let wait = api.command(&format!("status {id} --watch"));
            let end = api.command(&format!("cancel {id}"));
            meter.say(&format!("the batch goes on; {wait} waits for it again, {end} ends it"));
            Ok(None)
        }
    }
}

async fn follow(api: &Api, mut batch: Info, meter: &mut Meter) -> Result<Info> {
    let mut pause = OFTEN;
    let mut still = Stillness::new(Instant::now());
    loop {
        let counts = batch.request_counts;
        let note = match counts.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        meter.show(&batch.status, batch.done(), counts.total, &note);
        if batch.has_ended() {
            return Ok(batch);
        }
        if still.is_long(&batch, Instant::now()) {
            let why = why(api).await.join("; ");
            meter.say(&format!("nothing has moved for a while: {why}"));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 5 / 4).min(SELDOM);
        batch = again(api, &batch.id, meter).await?;
    }
}

/// Asks until there is an answer.
async fn again(api: &Api, id: &str, meter: &Meter) -> Result<Info> {
    let mut since: Option<Instant> = None;
    loop {
        let why = match api.batch(id).await {
            Ok(batch) => return Ok(batch),
            Err(Problem::Nobody(why) | Problem::Away(why)) => why,
            Err(refused) => return Err(refused.into()),
        };
        match since {
            None => {
                meter.say(&format!("{why}; trying again"));
                since = Some(Instant::now());
            }
            Some(since) if since.elapsed() > AWAY_MAX => {
                bail!("{why}, for {} minutes now", AWAY_MAX.as_secs() / 60)
            }
            Some(_) => {}
        }
        tokio::time::sleep(OFTEN).await;
    }
}
