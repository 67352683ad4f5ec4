//! The folder of the Batch API, with its queue. If the disk is full at the start, opening is tried
//! again until there is room.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use store::{ErrorKind, SqliteStore, StoreError};

use super::error::DurableQueuesError;
use super::{DispatchContext, PAUSE, later};
use crate::batch_api::Batches;
use crate::config::BATCH_QUEUE;
use crate::config::settings::dispatch::Batch;
use crate::dispatch::Dispatcher;
use crate::state::State;
use crate::task;

/// The name of the queue's file.
const FILE: &str = "queue.db";

/// See the module's description.
#[derive(Debug)]
pub(super) struct BatchFolder {
    path: PathBuf,
    settings: Batch,
    context: Arc<DispatchContext>,
    open: OnceLock<Open>,
    /// Why the folder is not open.
    error: Mutex<String>,
}

#[derive(Debug)]
struct Open {
    batches: Arc<Batches>,
    dispatcher: Arc<Dispatcher>,
}

// === impl BatchFolder ===

impl BatchFolder {
    /// Opens the folder; fails if another try cannot succeed.
    pub(super) async fn open(
        context: &Arc<DispatchContext>,
        settings: &Batch,
        path: &Path,
    ) -> Result<Arc<Self>, DurableQueuesError> {
        let folder = Arc::new(Self {
            path: path.into(),
            settings: settings.clone(),
            context: Arc::clone(context),
            open: OnceLock::new(),
            error: Mutex::default(),
        });
        match folder.try_open().await {
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::Full => {
                let error = folder.failed(error);
                tracing::error!(%error, "the Batch API waits until its folder can be used");
                folder.note(error.to_string());
            }
            Err(error) => return Err(folder.failed(error)),
        }
        Ok(folder)
    }

    /// The Batch API, once the folder is open.
    pub(super) fn batches(&self) -> Option<&Arc<Batches>> {
        self.open.get().map(|open| &open.batches)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn dispatcher(&self) -> Option<&Arc<Dispatcher>> {
        self.open.get().map(|open| &open.dispatcher)
    }

    /// Why the folder is not open, if it is not.
    pub(super) fn error(&self) -> Option<String> {
        self.open.get().is_none().then(|| self.why())
    }

    /// Opens the folder, then sends its messages and advances its batches until shutdown.
    pub(super) async fn run(self: Arc<Self>, state: Arc<State>) {
        let open = tokio::select! {
            open = self.opened() => open,
            () = state.closing() => return,
        };
        task::spawn(Arc::clone(&open.batches).watch_room());
        task::spawn(Arc::clone(&open.batches).reconcile());
        Arc::clone(&open.dispatcher).run(state.closing()).await;
    }

    /// Tries until the folder is open.
    async fn opened(&self) -> &Open {
        let mut pause = PAUSE;
        loop {
            if let Some(open) = self.open.get() {
                return open;
            }
            tokio::time::sleep(pause).await;
            pause = later(pause);
            match self.try_open().await {
                Ok(()) => {
                    tracing::info!(folder = %self.path.display(), "the Batch API is available")
                }
                Err(error) => self.note(self.failed(error).to_string()),
            }
        }
    }

    async fn try_open(&self) -> Result<(), StoreError> {
        let path = self.path.clone();
        let opened = task::blocking(move || {
            if path.is_file() {
                return Err(StoreError::new(ErrorKind::Invalid, "this is a file: give a folder"));
            }
            std::fs::create_dir_all(&path).map_err(|error| StoreError::disk(&path, error))?;
            SqliteStore::open(path.join(FILE))
        });
        let broken = |text: String| StoreError::new(ErrorKind::Broken, text);
        let store = opened.await.unwrap_or_else(|error| Err(broken(error.to_string())))?;
        let batches = Batches::open(&self.settings, &self.path, Arc::clone(&store)).await?;
        let dispatcher = self.context.dispatcher(store, |queue| queue.name == BATCH_QUEUE);
        let dispatcher = dispatcher.map_err(|error| broken(error.to_string()))?;
        // This is the only caller, so the cell is empty.
        let _ = self.open.set(Open { batches, dispatcher });
        Ok(())
    }

    fn failed(&self, source: StoreError) -> DurableQueuesError {
        DurableQueuesError::Folder { path: self.path.clone(), source }
    }

    fn why(&self) -> String {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, why: String) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}
