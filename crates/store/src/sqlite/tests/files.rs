//! The file: its owner, its mode, and the errors for a file that cannot be used.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;

use super::{claim, fresh, message, now};
use crate::tests::sqlite::Folder;
use crate::{Depth, ErrorKind, SqliteStore, Store, StoreError};

fn refused(path: &Path) -> StoreError {
    let error = SqliteStore::open(path).unwrap_err();
    assert!(error.text.contains(path.to_str().unwrap()), "{error} does not name the file");
    error
}

#[tokio::test]
async fn d09_one_process_owns_a_file() {
    let (store, folder) = fresh();
    store.submit(vec![message("a")], now()).await.unwrap();
    let error = refused(&folder.file());
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.text.contains("queue.db.lock") && error.text.contains("stop it"), "{error}");
    drop(store);
    SqliteStore::open(folder.file()).unwrap();
}

/// A child process that is just being spawned has every descriptor of its parent for a moment, and
/// so the lock.
#[test]
fn a_closed_file_can_be_opened_at_once_while_programs_start() {
    let folder = Folder::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let starter = || {
            while !done.load(Ordering::Relaxed) {
                _ = Command::new("true").status();
            }
        };
        scope.spawn(starter);
        scope.spawn(starter);
        let failed = (0..300).find_map(|_| SqliteStore::open(folder.file()).err());
        done.store(true, Ordering::Relaxed);
        assert_eq!(failed, None);
    });
}

#[tokio::test]
async fn d07_every_commit_is_flushed_and_only_the_owner_can_read_the_file() {
    let (store, folder) = fresh();
    let pragmas = |tx: &rusqlite::Transaction<'_>| {
        let synchronous = tx.pragma_query_value(None, "synchronous", |row| row.get(0))?;
        let mode = tx.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        Ok::<_, rusqlite::Error>((synchronous, mode))
    };
    let pragmas: (i64, String) = store.write(pragmas).await.unwrap();
    assert_eq!(pragmas, (2, "wal".into()), "2 is FULL");
    for file in ["queue.db", "queue.db-wal"] {
        let mode = fs::metadata(folder.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[test]
fn a_missing_folder_is_named() {
    let folder = Folder::new();
    let error = refused(&folder.file().join("queue.db"));
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.text.contains("the folder must exist"), "{error}");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = Folder::new();
    let text = "These are my notes. ".repeat(1000);
    fs::write(folder.file(), &text).unwrap();
    let error = refused(&folder.file());
    assert_eq!(error.kind, ErrorKind::Broken);
    assert!(error.text.contains("not a SQLite file"), "{error}");
    assert_eq!(fs::read_to_string(folder.file()).unwrap(), text);
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    let folder = Folder::new();
    let other = Connection::open(folder.file()).unwrap();
    other.execute_batch("CREATE TABLE songs (name TEXT); PRAGMA user_version = 1;").unwrap();
    drop(other);
    let before = fs::read(folder.file()).unwrap();
    let error = refused(&folder.file());
    assert!(error.text.contains("another program"), "{error}");
    assert_eq!(fs::read(folder.file()).unwrap(), before);
}

#[tokio::test]
async fn a_newer_file_is_refused() {
    let (store, folder) = fresh();
    drop(store);
    let shell = Connection::open(folder.file()).unwrap();
    shell.pragma_update(None, "user_version", 77).unwrap();
    drop(shell);
    let error = refused(&folder.file());
    assert_eq!(error.kind, ErrorKind::Broken);
    assert!(error.text.contains("version 77"), "{error}");
}

#[tokio::test]
async fn a_damaged_file_is_reported() {
    let (store, folder) = fresh();
    let messages = (0..200).map(|number| message(&format!("m{number}"))).collect();
    store.submit(messages, now()).await.unwrap();
    drop(store);
    let mut bytes = fs::read(folder.file()).unwrap();
    bytes[4096..].fill(0x5a);
    fs::write(folder.file(), bytes).unwrap();
    let error = refused(&folder.file());
    assert_eq!(error.kind, ErrorKind::Broken);
    assert!(error.text.contains("damaged") && error.text.contains(".recover"), "{error}");
}

#[tokio::test]
async fn an_operator_can_read_and_write_while_it_runs() {
    let (store, folder) = fresh();
    store.submit(vec![message("a"), message("b"), message("c")], now()).await.unwrap();
    let shell = Connection::open(folder.file()).unwrap();
    let sql = "SELECT group_concat(id) FROM messages WHERE state = 'pending'";
    let seen: String = shell.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(seen, "a,b,c");
    shell.execute("DELETE FROM messages WHERE id = 'b'", []).unwrap();
    let depth = store.depth(super::QUEUE).await.unwrap();
    assert_eq!(depth, Depth { pending: 2, ..Depth::default() }, "the counts follow");
    assert_eq!(claim(&store, 10).await.len(), 2);
}

/// The same with the `sqlite3` shell.
#[tokio::test]
async fn the_sqlite3_shell_can_read_while_it_runs() {
    let (store, folder) = fresh();
    store.submit(vec![message("a")], now()).await.unwrap();
    let sql = "SELECT id, state FROM messages";
    let shell = Command::new("sqlite3").arg(folder.file()).arg(sql).output();
    let shell = shell.unwrap_or_else(|error| panic!("sqlite3: {error}: run tools/setup.sh"));
    assert_eq!(String::from_utf8_lossy(&shell.stdout), "a|pending\n", "{shell:?}");
}

#[tokio::test]
async fn the_log_shrinks_after_a_long_read() {
    let (store, folder) = fresh();
    let log = folder.file().with_extension("db-wal");
    let shell = Connection::open(folder.file()).unwrap();
    let look = shell.unchecked_transaction().unwrap();
    let count = |sql| look.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM messages"), 0);
    let write = async |from: usize| {
        for number in from..from + 90 {
            let body = crate::Body::Bytes(vec![b'x'; 1 << 20].into());
            let large = crate::Message { body, ..message(&format!("m{number}")) };
            store.submit(vec![large], now()).await.unwrap();
        }
    };
    write(0).await;
    let long = fs::metadata(&log).unwrap().len();
    assert!(long > 80 << 20, "no checkpoint can pass a reader of an old snapshot");
    drop(look);
    write(90).await;
    let short = fs::metadata(&log).unwrap().len();
    assert!(short <= 65 << 20, "{short} bytes are left of {long}");
}

/// A machine that stops can leave any beginning of the log, with a torn end.
#[tokio::test]
async fn d07_a_log_that_is_cut_anywhere_has_the_commits_before_the_cut() {
    let (store, folder) = fresh();
    for number in 10..40 {
        store.submit(vec![message(&number.to_string())], now()).await.unwrap();
    }
    let [file, log] = ["db", "db-wal"].map(|end| fs::read(folder.file().with_extension(end)));
    let (file, log) = (file.unwrap(), log.unwrap());
    let mut most = 0;
    for cut in (0..=log.len()).rev().step_by(log.len() / 60) {
        let mut left = log[..cut].to_vec();
        if let Some(torn) = left.iter_mut().rev().nth(cut % 50) {
            *torn ^= 0x55;
        }
        let copy = Folder::new();
        fs::write(copy.file(), &file).unwrap();
        fs::write(copy.file().with_extension("db-wal"), left).unwrap();
        let store = SqliteStore::open(copy.file()).unwrap();
        let claims = claim(&store, 100).await;
        let mut ids: Vec<&str> = claims.iter().map(|claim| claim.message.id.as_str()).collect();
        ids.sort_unstable();
        assert!(ids.iter().zip(10..).all(|(id, number)| *id == number.to_string()), "{ids:?}");
        most = most.max(ids.len());
    }
    assert!((25..=30).contains(&most), "the longest logs have {most} of 30 messages");
}
