//! Metrics of the process, under the names that all exporters use.
//!
//! The values come from `/proc`. Without it the families stay empty.

use std::fs;

use crate::observe::prometheus_writer::{MetricType, MetricsText};

/// Ticks per second in `/proc/self/stat`; Linux reports 100 on every architecture.
const TICKS_PER_SEC: f64 = 100.0;

/// Writes memory, CPU time, open files and the build.
pub(in crate::observe) fn write(text: &mut MetricsText) {
    let status = read("/proc/self/status");
    let help = "Resident memory size in bytes.";
    let mut family = text.bare("process_resident_memory_bytes", MetricType::Gauge, help);
    if let Some(kibibytes) = field(&status, "VmRSS:") {
        family.add(&[], kibibytes * 1024);
    }
    let help = "Number of OS threads in the process.";
    let mut family = text.bare("process_threads", MetricType::Gauge, help);
    if let Some(threads) = field(&status, "Threads:") {
        family.add(&[], threads);
    }
    let help = "Total user and system CPU time spent in seconds.";
    let mut family = text.bare("process_cpu_seconds_total", MetricType::Counter, help);
    if let Some(seconds) = cpu_seconds(&read("/proc/self/stat")) {
        family.add(&[], seconds);
    }
    let help = "Number of open file descriptors.";
    let mut family = text.bare("process_open_fds", MetricType::Gauge, help);
    if let Ok(entries) = fs::read_dir("/proc/self/fd") {
        family.add(&[], entries.count());
    }
    let help = "Maximum number of open file descriptors.";
    let mut family = text.bare("process_max_fds", MetricType::Gauge, help);
    if let Some(most) = field(&read("/proc/self/limits"), "Max open files") {
        family.add(&[], most);
    }
    let help = "The version of the build; always 1.";
    let mut family = text.family("build_info", MetricType::Gauge, help);
    family.add(&[("version", env!("CARGO_PKG_VERSION"))], 1);
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The first number after a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// User and system time. The fields are counted from the end of the command name, which may contain
/// brackets and spaces.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some((user + system) as f64 / TICKS_PER_SEC)
}
