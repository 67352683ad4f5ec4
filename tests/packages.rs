//! The packages of a release: a tarball, a Debian package and an image, made from the debug build.
//!
//! Each is used as an operator uses it. The Debian package is installed, upgraded, removed and
//! purged under a systemd of its own, and the image runs with its own files alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::tools::{run, tool};
use crate::support::{Engine, Process, call, chat, eventually, fresh_file};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn fresh_folder() -> PathBuf {
    fresh_file().parent().unwrap().to_owned()
}

/// Makes the packages in a fresh folder, and returns it with the sums that the script prints.
fn make_packages() -> (PathBuf, String) {
    let out = fresh_folder().join("packages");
    let mut command = Command::new(root().join("tools/packages.sh"));
    command.env("PROGRAM", env!("CARGO_BIN_EXE_tidegate")).env("COMPRESSION", "-1");
    let sums = run(command.env("OUT", &out).env("SOURCE_DATE_EPOCH", "1795000000"));
    (out, sums)
}

/// The packages, made once for all tests.
fn packages() -> &'static (PathBuf, String) {
    static PACKAGES: OnceLock<(PathBuf, String)> = OnceLock::new();
    PACKAGES.get_or_init(make_packages)
}

/// The package whose name ends like this.
fn package(ending: &str) -> PathBuf {
    let mut entries = fs::read_dir(&packages().0).unwrap().map(|entry| entry.unwrap().path());
    entries.find(|path| path.to_str().unwrap().ends_with(ending)).unwrap()
}

/// A script of `tests/packages`, in a mount namespace of its own.
fn script(name: &str) -> Command {
    let mut command = tool("unshare");
    command.arg("--mount").arg("bash").arg(root().join("tests/packages").join(name));
    command
}

#[test]
fn the_same_program_gives_the_same_packages() {
    let (first, second) = (&packages().1, make_packages().1);
    assert_eq!(first.lines().count(), 3, "{first}");
    assert_eq!(*first, second);
}

#[test]
fn the_tarball_has_the_program_completions_pages_and_examples() {
    let folder = fresh_folder();
    run(tool("sha256sum").current_dir(&packages().0).args(["--check", "SHA256SUMS"]));
    let tarball = package(".tar.gz");
    run(tool("tar").args(["-x", "--strip-components=1", "-f"]).arg(tarball).arg("-C").arg(&folder));
    let version = run(Command::new(folder.join("bin/tidegate")).arg("--version"));
    assert!(version.starts_with("tidegate 0."), "{version}");
    for file in [
        "LICENSE",
        "CHANGELOG.md",
        "share/man/man1/tidegate-serve.1",
        "share/bash-completion/completions/tidegate",
        "share/zsh/vendor-completions/_tidegate",
        "share/fish/vendor_completions.d/tidegate.fish",
        "systemd/tidegate.service",
    ] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    let example = folder.join("share/doc/tidegate/examples/tidegate.toml");
    run(Command::new(folder.join("bin/tidegate")).arg("check").arg(example));
}

/// Installed, started, asked, reloaded, upgraded, removed and purged; the script has the details.
#[test]
fn the_debian_package_serves_under_systemd_and_leaves_nothing_behind() {
    let mut command = script("systemd.sh");
    command.arg(&packages().0).arg(root().join("tests/packages/installed.sh"));
    let said = run(&mut command);
    assert!(said.contains("user tidegate\n"), "{said}");
    assert!(said.contains("CapEff:\t0000000000000000\n"), "{said}");
}

#[test]
fn the_unit_is_hardened() {
    let unit = root().join("deploy/systemd/tidegate.service");
    let mut command = tool("systemd-analyze");
    // In tenths: 10 is full exposure, and an ordinary service has 9.
    run(command.args(["security", "--offline=true", "--threshold=15"]).arg(unit));
}

/// Unpacked by another tool, which checks sizes and sums, and asked in a chroot. The debug build is
/// dynamic, so that its libraries must be in the image as well.
#[test]
fn the_image_serves_with_its_own_files_as_a_user_that_is_not_root() {
    let bundle = fresh_folder().join("bundle");
    let image = format!("{}:{}", packages().0.join("image").display(), env!("CARGO_PKG_VERSION"));
    run(tool("umoci").args(["unpack", "--image", &image]).arg(&bundle));
    let files = bundle.join("rootfs");
    let settings = fs::read_to_string(bundle.join("config.json")).unwrap();
    assert!(settings.contains("\"uid\": 65532"), "{settings}");
    let engine = Engine::start(&["--model", "m"]);
    let mut command = script("chroot.sh");
    command.arg(&files).args(["serve", "--config", "/etc/tidegate/tidegate.toml", "--backend"]);
    command
        .arg(format!("http://{}", engine.address()))
        .args(["--listen", "127.0.0.1:0"])
        .env_remove("TIDEGATE_SEED");
    let gateway = Process::run(command, &["listening on http://"]);
    let status = fs::read_to_string(format!("/proc/{}/status", gateway.id())).unwrap();
    assert!(status.contains("Uid:\t65532\t65532\t65532\t65532\n"), "{status}");
    eventually("served", || {
        let request = chat("m").with("max_tokens", 2);
        let answer = call::Call::open(gateway.address(), &request.bytes()).finish();
        if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
    });
}

/// What the build script tells the compiler.
fn version(commit: &str, epoch: &str) -> String {
    let folder = fresh_folder();
    let program = folder.join("build");
    run(tool("rustc").args(["--edition=2024", "-o"]).arg(&program).arg(root().join("build.rs")));
    let mut command = Command::new(program);
    // The folder is no repository, although one is above it.
    command.current_dir(&folder).env("CARGO_PKG_VERSION", "1.2.3");
    command.env("SOURCE_COMMIT", commit).env("SOURCE_DATE_EPOCH", epoch);
    let said = run(&mut command);
    let line = said.lines().find_map(|line| line.strip_prefix("cargo:rustc-env=PROGRAM_VERSION="));
    line.unwrap_or_else(|| panic!("{said}")).to_owned()
}

#[test]
fn the_version_has_commit_and_date_and_needs_no_git() {
    assert_eq!(version("", ""), "1.2.3");
    assert_eq!(version("abc1234", "951782400"), "1.2.3 (abc1234 2000-02-29)");
    assert_eq!(version("abc1234", "1795000000"), "1.2.3 (abc1234 2026-11-18)");
    let said = run(Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("--version"));
    assert!(said.starts_with(concat!("tidegate ", env!("CARGO_PKG_VERSION"))), "{said}");
}
