//! Reload with real files: a good file takes effect, a bad one changes nothing, no change is lost.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind};
use notify::{Event, EventKind};

use super::Reloads;
use crate::config::{Config, Flag, Source, load};
use crate::file_watch::is_change;

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// As editors do it: a new file takes the place of the old one.
    fn replace(&self, name: &str, text: &str) {
        let new = self.write("new", text);
        fs::rename(new, self.0.join(name)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn capacity(number: u32) -> String {
    format!("[queue]\ntotal_capacity = {number}\n")
}

fn reloads(file: &Path) -> Reloads {
    let source = Source { file: Some(file.into()), ..Source::default() };
    let config = load(&source).unwrap();
    Reloads::new(source, config).unwrap()
}

async fn next(reloads: &mut Reloads) -> Config {
    // Only a test that fails waits for this long.
    tokio::time::timeout(Duration::from_secs(60), reloads.next()).await.expect("a reload")
}

#[tokio::test]
async fn x06_a_file_that_is_written_or_replaced_is_reloaded() {
    let folder = Folder::new("written");
    let mut reloads = reloads(&folder.write("t.toml", &capacity(1)));
    folder.write("t.toml", &capacity(2));
    assert_eq!(next(&mut reloads).await.flow.total_capacity, 2);
    folder.replace("t.toml", &capacity(3));
    assert_eq!(next(&mut reloads).await.flow.total_capacity, 3);
    folder.replace("t.toml", &capacity(4));
    assert_eq!(next(&mut reloads).await.flow.total_capacity, 4);
}

#[tokio::test]
async fn x06_a_change_before_the_watch_began_is_found() {
    let folder = Folder::new("before");
    let file = folder.write("t.toml", &capacity(1));
    let source = Source { file: Some(file), ..Source::default() };
    let config = load(&source).unwrap();
    folder.write("t.toml", &capacity(2));
    let mut reloads = Reloads::new(source, config).unwrap();
    assert!(reloads.stale, "another test's SIGHUP could stand in for it");
    assert_eq!(next(&mut reloads).await.flow.total_capacity, 2);
}

#[tokio::test]
async fn x06_a_link_that_is_swapped_beside_the_file_is_a_change() {
    let folder = Folder::new("kubernetes");
    for (version, number) in [("..1", 1), ("..2", 2)] {
        fs::create_dir(folder.0.join(version)).unwrap();
        folder.write(&format!("{version}/t.toml"), &capacity(number));
    }
    symlink("..1", folder.0.join("..data")).unwrap();
    symlink("..data/t.toml", folder.0.join("t.toml")).unwrap();
    let mut reloads = reloads(&folder.0.join("t.toml"));
    symlink("..2", folder.0.join("..next")).unwrap();
    fs::rename(folder.0.join("..next"), folder.0.join("..data")).unwrap();
    assert_eq!(next(&mut reloads).await.flow.total_capacity, 2);
}

#[tokio::test]
async fn x06_sighup_reloads_a_change_that_no_watch_sees() {
    let folder = Folder::new("hangup");
    let elsewhere = Folder::new("elsewhere");
    let target = elsewhere.write("t.toml", &capacity(1));
    symlink(&target, folder.0.join("t.toml")).unwrap();
    let mut reloads = reloads(&folder.0.join("t.toml"));
    assert!(reloads.look().await.is_none(), "the configuration in force is no change");
    reloads.stale = false;
    elsewhere.write("t.toml", &capacity(2));
    let own = std::process::id().to_string();
    assert!(Command::new("kill").args(["-HUP", &own]).status().unwrap().success());
    assert_eq!(next(&mut reloads).await.flow.total_capacity, 2);
}

#[tokio::test]
async fn x06_a_bad_file_changes_nothing() {
    let folder = Folder::new("bad");
    let mut reloads = reloads(&folder.write("t.toml", &capacity(1)));
    folder.write("t.toml", "[queue]\ntotal_capacity = -1\nbananas = 2\n");
    assert!(reloads.look().await.is_none());
    fs::remove_file(folder.0.join("t.toml")).unwrap();
    assert!(reloads.look().await.is_none());
    assert_eq!(reloads.in_force.flow.total_capacity, 1);
    folder.write("t.toml", &capacity(1));
    assert!(reloads.look().await.is_none(), "as it was before");
    folder.write("t.toml", &capacity(2));
    assert_eq!(next(&mut reloads).await.flow.total_capacity, 2);
}

#[tokio::test]
async fn x06_content_that_means_the_same_is_no_reload() {
    let folder = Folder::new("same");
    let mut reloads = reloads(&folder.write("t.toml", &capacity(1)));
    assert!(reloads.look().await.is_none());
    folder.write("t.toml", &capacity(1));
    assert!(reloads.look().await.is_none());
    folder.write("t.toml", &format!("# a comment\n{}", capacity(1)));
    assert!(reloads.look().await.is_none());
}

#[tokio::test]
async fn x06_a_key_that_needs_a_restart_stays_with_a_notice() {
    let folder = Folder::new("fixed");
    let text = "[server]\nlisten = '127.0.0.1:1'\nworkers = 1\n[admin]\nlisten = '127.0.0.1:2'\n";
    let mut reloads = reloads(&folder.write("t.toml", text));
    let old = reloads.in_force.clone();
    let text = "[server]\nlisten = '127.0.0.1:3'\nworkers = 2\nbody_limit = '2KiB'\n\
                [log]\nformat = 'json'\n[dbus]\nenabled = true\n";
    folder.write("t.toml", text);
    let new = next(&mut reloads).await;
    assert_eq!(new.server.body_limit, 2048);
    assert_eq!((new.server.listen, new.server.workers), (old.server.listen, Some(1)));
    assert_eq!((new.admin.listen, new.log.format), (old.admin.listen, old.log.format));
    assert_eq!(new.dbus, None);
    for key in ["server.listen", "server.workers", "admin.listen", "log.format", "dbus"] {
        assert!(new.notices.iter().any(|notice| notice.text.starts_with(key)), "{:?}", new.notices);
    }
}

#[tokio::test]
async fn a_dropped_wait_loses_no_change() {
    let folder = Folder::new("given-up");
    let mut reloads = reloads(&folder.write("t.toml", &capacity(1)));
    assert!(reloads.look().await.is_none());
    reloads.stale = false;
    folder.write("t.toml", &capacity(2));
    reloads.await_cause().await;
    reloads.changed.notify_one();
    // Given up at each of its first steps.
    let mut found = None;
    for _ in 0..3 {
        tokio::select! {
            biased;
            config = reloads.next(), if found.is_none() => found = Some(config),
            () = tokio::task::yield_now() => {}
        }
    }
    let config = match found {
        Some(config) => config,
        None => next(&mut reloads).await,
    };
    assert_eq!(config.flow.total_capacity, 2);
}

#[test]
fn reading_the_file_does_not_cause_another_reading() {
    let file = Path::new("t.toml");
    let is_change = |kind| is_change(&Ok(Event::new(kind)), file);
    assert!(!is_change(EventKind::Access(AccessKind::Open(AccessMode::Any))));
    assert!(!is_change(EventKind::Access(AccessKind::Close(AccessMode::Read))));
    assert!(is_change(EventKind::Modify(ModifyKind::Any)));
    assert!(is_change(EventKind::Create(CreateKind::File)));
    assert!(crate::file_watch::is_change(&Err(notify::Error::generic("events were lost")), file));
}

#[test]
fn other_files_beside_the_configuration_cause_no_reload() {
    let folder = Folder::new("beside");
    let file = folder.write("t.toml", "");
    let log = folder.write("t.log", "");
    let real = folder.write("real.toml", "");
    let link = folder.0.join("link.toml");
    symlink("real.toml", &link).unwrap();
    let touched = |paths: &[&Path], file: &Path| {
        let event = Event::new(EventKind::Modify(ModifyKind::Any));
        let event = paths.iter().fold(event, |event, path| event.add_path(path.to_path_buf()));
        is_change(&Ok(event), file)
    };
    assert!(!touched(&[&log], &file));
    assert!(!touched(&[&log, &real], &file));
    assert!(!touched(&[&log], &folder.0.join("missing.toml")), "nor while there is none");
    assert!(touched(&[&file], &file));
    assert!(touched(&[&log, &file], &file), "it takes the configuration's place");
    assert!(touched(&[&real], &link), "what the configuration links to");
    assert!(touched(&[&link], &file), "a link may lead to it");
    assert!(touched(&[&folder.0], &file), "so may a folder");
    assert!(touched(&[&folder.0.join("gone")], &file), "it may have been a link");
}

#[tokio::test]
async fn x06_a_reload_keeps_flags_and_variables_in_force() {
    let folder = Folder::new("kept");
    let file = folder.write("t.toml", &capacity(1));
    let source = Source {
        file: Some(file),
        variables: vec![("TIDEGATE_QUEUE__FLOW_CAPACITY".into(), "7".into())],
        flags: vec![Flag::Set("queue.queue_ttl=9s".into()), Flag::Backend("http://h".into())],
        ..Source::default()
    };
    let config = load(&source).unwrap();
    let mut reloads = Reloads::new(source, config).unwrap();
    let text = "[queue]\ntotal_capacity = 2\nflow_capacity = 3\nqueue_ttl = '4s'\n";
    folder.write("t.toml", text);
    let new = next(&mut reloads).await;
    assert_eq!((new.flow.total_capacity, new.flow.default_class.capacity), (2, 7));
    assert_eq!(new.flow.default_class.ttl, flow::Span::from_secs(9));
    assert_eq!(new.fleet.backends.len(), 1);
}

#[tokio::test]
async fn x06_another_spelling_of_a_fixed_value_is_no_change() {
    let folder = Folder::new("spelling");
    let mut reloads = reloads(&folder.write("t.toml", "[batch]\nkeep = '1d'\n"));
    folder.write("t.toml", "[batch]\nkeep = '24h'\nfile_limit = '200MiB'\n");
    assert!(reloads.look().await.is_none());
    folder.write("t.toml", "[batch]\nkeep = '2d'\n");
    let new = next(&mut reloads).await;
    assert_eq!(new.batch, reloads.in_force.batch);
    assert_eq!(new.notices.len(), 1, "{:?}", new.notices);
    assert!(new.notices[0].text.starts_with("batch.keep has changed"), "{:?}", new.notices);
}

#[tokio::test]
async fn flags_alone_never_change() {
    let source = Source { flags: vec![Flag::Backend("http://h".into())], ..Source::default() };
    let config = load(&source).unwrap();
    let mut reloads = Reloads::new(source, config).unwrap();
    assert!(!reloads.stale);
    assert!(reloads.look().await.is_none());
}
