//! Tells the program its commit and its date, for `tidegate --version`.
//!
//! The sources may come without git, from a tarball or from a package, and a build must be
//! repeatable. So the variables SOURCE_COMMIT and SOURCE_DATE_EPOCH go before git, no clock is
//! read, and a build without any of these has its version alone.

use std::env;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;

fn main() -> io::Result<()> {
    let mut out = io::stdout();
    for name in ["SOURCE_COMMIT", "SOURCE_DATE_EPOCH"] {
        writeln!(out, "cargo:rerun-if-env-changed={name}")?;
    }
    writeln!(out, "cargo:rerun-if-changed=build.rs")?;
    // The log of HEAD changes with each commit and each checkout.
    for file in ["HEAD", "logs/HEAD"].into_iter().filter_map(|name| git(&["--git-path", name])) {
        if Path::new(&file).exists() {
            writeln!(out, "cargo:rerun-if-changed={file}")?;
        }
    }
    // No name of Tidegate's own variables: `cargo test` gives it to every process.
    writeln!(out, "cargo:rustc-env=PROGRAM_VERSION={}", version())
}

/// The version, with the commit and the date if they are known.
fn version() -> String {
    let commit = variable("SOURCE_COMMIT").or_else(|| shown("%h"));
    let epoch = variable("SOURCE_DATE_EPOCH").and_then(|seconds| seconds.parse().ok());
    let date = epoch.map(date_of).or_else(|| shown("%cs"));
    let version = variable("CARGO_PKG_VERSION").unwrap_or_default();
    let details = [commit, date].into_iter().flatten().collect::<Vec<_>>().join(" ");
    if details.is_empty() { version } else { format!("{version} ({details})") }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// A field of the last commit. The sources must be the repository itself: a tarball that was
/// unpacked inside of another repository has no commit.
fn shown(field: &str) -> Option<String> {
    let top = git(&["--show-toplevel"])?;
    let own = Path::new(&top).canonicalize().ok()? == Path::new(".").canonicalize().ok()?;
    let format = format!("--format={field}");
    own.then(|| output(&["show", "--no-patch", "--abbrev=9", &format, "HEAD"]))?
}

fn git(arguments: &[&str]) -> Option<String> {
    output(&[&["rev-parse"], arguments].concat())
}

fn output(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// The day of a time in seconds since 1970, by the calendar of Howard Hinnant's `civil_from_days`.
fn date_of(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
