//! Accounting: what each tenant, key and model used, in sums of an hour.
//!
//! A request that ends adds to sums in memory. A thread writes them to the file each second, so a
//! killed process loses at most the last second. If the file cannot be written, the sums wait here.
//! Without a file there is no accounting.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::{StoreError, UsageAmounts, UsageKey, UsageQuery, UsageStore, UsedTokens};

use crate::calendar;
use crate::clock;
use crate::task;

/// How often the sums are written.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// The tokens of tenants are summed up once in so many writes.
const SUM_EVERY: u64 = 5;
/// How long rows are kept, in hours.
const KEEP_HOURS: u64 = 366 * 24;
const HOUR_SECS: u64 = 3600;
/// The most sums that wait while the file cannot be written.
const PENDING_MAX: usize = 100_000;

/// The rows of a response.
pub(crate) type UsageRows = Vec<(UsageKey, UsageAmounts)>;

/// The accounts.
#[derive(Debug)]
pub(crate) struct Accounts {
    pending: Mutex<BTreeMap<UsageKey, UsageAmounts>>,
    store: Mutex<UsageStore>,
    /// Why the file cannot be written.
    error: Mutex<Option<String>>,
    /// The last known tokens of all tenants.
    used: Mutex<Arc<BTreeMap<String, PeriodTokens>>>,
}

/// The tokens of one tenant in the present day and month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeriodTokens {
    pub(crate) day: UsedTokens,
    pub(crate) month: UsedTokens,
}

// === impl Accounts ===

impl Accounts {
    /// Opens the file.
    pub(crate) fn open(path: &Path) -> Result<Arc<Self>, StoreError> {
        let store = Mutex::new(UsageStore::open(path)?);
        Ok(Arc::new(Self {
            pending: Mutex::default(),
            store,
            error: Mutex::default(),
            used: Mutex::default(),
        }))
    }

    /// Adds the amounts of a request that ended in this hour.
    pub(crate) fn add(&self, key: UsageKey, amounts: &UsageAmounts) {
        let mut pending = self.pending();
        if pending.len() < PENDING_MAX || pending.contains_key(&key) {
            pending.entry(key).or_default().add(amounts);
        }
    }

    /// Writes the sums each second. Never returns.
    pub(crate) async fn keep(self: Arc<Self>) {
        let mut cleared = 0;
        for round in 0_u64.. {
            tokio::time::sleep(WRITE_EVERY).await;
            let today = clock::date_secs() / calendar::DAY_SECS;
            let clears = today != std::mem::replace(&mut cleared, today);
            let accounts = Arc::clone(&self);
            let sums_up = round % SUM_EVERY == 0;
            let tidied = task::blocking(move || accounts.tidy(clears, sums_up)).await;
            let Ok(tidied) = tidied else { continue };
            let error = tidied.err().map(|error| error.to_string());
            let was_failing = std::mem::replace(&mut *locked(&self.error), error.clone()).is_some();
            if let Some(error) = error.filter(|_| !was_failing) {
                tracing::error!(%error, "usage is not written, it waits in memory");
            }
        }
    }

    /// Why the file cannot be written, while it cannot.
    pub(crate) fn error(&self) -> Option<String> {
        locked(&self.error).clone()
    }

    /// The tokens of all tenants in the present day and month, a few seconds ago.
    pub(crate) fn used(&self) -> Arc<BTreeMap<String, PeriodTokens>> {
        Arc::clone(&locked(&self.used))
    }

    /// Writes what waits, at the end of the process.
    pub(crate) fn write_last(&self) {
        if let Err(error) = self.write() {
            tracing::error!(%error, "the last usage is lost");
        }
    }

    /// The rows of a query, with all that has ended until now.
    pub(crate) fn read(&self, query: &UsageQuery) -> Result<UsageRows, StoreError> {
        self.write()?;
        self.store().read(query)
    }

    /// The tokens of all tenants in the present day and month.
    pub(crate) fn tokens(
        &self,
        now_secs: u64,
    ) -> Result<BTreeMap<String, PeriodTokens>, StoreError> {
        let today = now_secs / calendar::DAY_SECS;
        let store = self.store();
        let mut tokens: BTreeMap<String, PeriodTokens> = BTreeMap::new();
        for (tenant, used) in store.tokens_since(today * 24)? {
            tokens.entry(tenant).or_default().day = used;
        }
        for (tenant, used) in store.tokens_since(calendar::month_start(today) * 24)? {
            tokens.entry(tenant).or_default().month = used;
        }
        Ok(tokens)
    }

    /// Writes what waits. If that fails, it waits on.
    fn write(&self) -> Result<(), StoreError> {
        let mut store = self.store();
        let sums = std::mem::take(&mut *self.pending());
        if sums.is_empty() {
            return Ok(());
        }
        store.add(&sums).inspect_err(|_| {
            let mut pending = self.pending();
            for (key, amounts) in sums {
                pending.entry(key).or_default().add(&amounts);
            }
        })
    }

    /// Writes what waits, and removes rows that are too old if it is time for that.
    fn tidy(&self, clears: bool, sums_up: bool) -> Result<(), StoreError> {
        if self.store().reopen_if_replaced()? {
            tracing::error!(
                "the usage file was removed or replaced: its sums are lost, a new file begins; a \
                 restart would forget quotas"
            );
        }
        self.write()?;
        if sums_up {
            let used = self.tokens(clock::date_secs())?;
            *locked(&self.used) = Arc::new(used);
        }
        if !clears {
            return Ok(());
        }
        let hour = clock::date_secs() / HOUR_SECS;
        self.store().forget(hour.saturating_sub(KEEP_HOURS))
    }

    fn pending(&self) -> MutexGuard<'_, BTreeMap<UsageKey, UsageAmounts>> {
        locked(&self.pending)
    }

    fn store(&self) -> MutexGuard<'_, UsageStore> {
        locked(&self.store)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
