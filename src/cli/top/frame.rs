//! One frame as lines of text: the sentence, the findings, the queue, bands, backends and flows.

use serde_json::Value;

use super::table::{self, count, cut, decimal, millis, percent, time};
use super::view_state::{SORTS, ViewState};

/// The most findings that are shown.
const FINDINGS_MAX: usize = 4;
/// Advice is told in so much of the height: a third.
const ADVICE_PART: usize = 3;
/// The most findings that have ended.
const RECENT_MAX: usize = 2;
/// The most backends that are shown while there are flows to show.
const BACKENDS_MAX: usize = 12;

/// Colours text, or leaves it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Painter {
    pub(super) colours: bool,
}

/// A colour of the terminal, or bold text, by its code.
type Style = u8;
const BOLD: Style = 1;
const FAINT: Style = 2;
const RED: Style = 31;
const GREEN: Style = 32;
const YELLOW: Style = 33;

/// All lines of a frame of this width and height.
pub(super) fn lines(
    state: &ViewState,
    (width, height): (usize, usize),
    painter: Painter,
) -> Vec<String> {
    let status = &state.status;
    let mut lines = vec![(title(state), BOLD)];
    if let Some(failure) = &state.failure {
        let text = format!("no status, trying again: {failure}");
        lines.extend(wrapped(&text, width).map(|line| (line, RED)));
    }
    if status.is_null() {
        lines.push((format!("waiting for {}", state.url), FAINT));
    } else {
        lines.extend(diagnosis(status, (width, height)));
        lines.push((String::new(), 0));
        let queue = queue(status).into_iter().flat_map(|line| fitted(line, width));
        lines.extend(queue.map(|line| (line, 0)));
        lines.extend(titled(bands(status)));
        let backends = state.entries("backends", "id");
        let room = height.saturating_sub(lines.len() + 3);
        let shown = backends.len().min((room / 2).clamp(1, BACKENDS_MAX));
        lines.extend(titled(backend_table(&backends[..shown])));
        lines.extend(left_out(backends.len() - shown, status, "backends_left_out"));
        let room = height.saturating_sub(lines.len() + 4);
        lines.extend(flow_lines(state, room));
    }
    lines.truncate(height.saturating_sub(1));
    lines.push((help(state), FAINT));
    let paint = |(line, style): (String, Style)| painter.paint(&cut(&line, width), style);
    lines.into_iter().map(paint).collect()
}

fn title(state: &ViewState) -> String {
    let status = &state.status;
    let mut title = format!("tidegate {} at {}", text(&status["version"]), state.url);
    if !status.is_null() {
        title += &format!(", up {}", time(&status["uptime_seconds"]));
    }
    if state.paused {
        title += "  [paused]";
    }
    title
}

/// The sentence and the findings. Advice has a third of the height: below it must be room for the
/// state.
fn diagnosis(status: &Value, (width, height): (usize, usize)) -> Vec<(String, Style)> {
    let mut lines = Vec::new();
    let mut say = |text: &str, style: Style| {
        lines.extend(wrapped(text, width).map(|line| (line, style)));
        lines.len() < height / ADVICE_PART
    };
    say(text(&status["sentence"]), style(&status["level"]));
    let findings = status["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
    for finding in findings.iter().take(FINDINGS_MAX) {
        let since = match finding["since_seconds"].as_f64() {
            Some(_) => format!(" (for {})", time(&finding["since_seconds"])),
            None => String::new(),
        };
        let (said, advice) = (text(&finding["text"]), text(&finding["advice"]));
        let has_room = say(&format!("  {said}{since}"), style(&finding["level"]));
        if has_room {
            say(&format!("    {advice}"), FAINT);
        }
    }
    if findings.len() > FINDINGS_MAX {
        say(&format!("  and {} more", findings.len() - FINDINGS_MAX), FAINT);
    }
    let recent = status["recent"].as_array().map(Vec::as_slice).unwrap_or_default();
    for ended in recent.iter().take(RECENT_MAX) {
        let ago = time(&ended["ended_seconds_ago"]);
        say(&format!("  ended {ago} ago: {}", text(&ended["text"])), FAINT);
    }
    lines
}

fn queue(status: &Value) -> [String; 2] {
    let (queue, stock) = (&status["queue"], &status["stock"]);
    let binding = match stock["binding"].as_str() {
        Some(binding) => format!(", bound by {binding}"),
        None => String::new(),
    };
    let is_one = |value: &Value| value.as_f64() == Some(1.0);
    let waits = if is_one(&queue["depth"]) { "waits" } else { "wait" };
    let requests = if is_one(&queue["in_flight"]) { "request" } else { "requests" };
    // Fresh requests go before late ones.
    let least = if queue["drain_is_least"] == true { "at least " } else { "" };
    [
        format!(
            "queue     {} of {} {waits}, {} late, oldest {}; {}/s arrive, {}/s end; empty in \
             {least}{}",
            count(&queue["depth"]),
            count(&queue["capacity"]),
            count(&queue["late"]),
            time(&queue["oldest_seconds"]),
            decimal(&queue["arriving_per_second"]),
            decimal(&queue["ending_per_second"]),
            time(&queue["drains_in_seconds"]),
        ),
        format!(
            "backends  {} {requests} in flight; stock {} of {} {} ({}){binding}",
            count(&queue["in_flight"]),
            count(&stock["now"]),
            count(&stock["watermark"]),
            text(&stock["unit"]),
            text(&stock["mode"]),
        ),
    ]
}

fn bands(status: &Value) -> Vec<String> {
    let columns = [
        ("BAND", false),
        ("waiting", true),
        ("late", true),
        ("in flight", true),
        ("oldest", true),
        ("served/s", true),
        ("refused/s", true),
    ];
    let bands = status["bands"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<_> = bands
        .iter()
        .map(|band| {
            [
                text(&band["name"]).to_owned(),
                count(&band["waiting"]),
                count(&band["late"]),
                count(&band["in_flight"]),
                time(&band["oldest_seconds"]),
                decimal(&band["served_per_second"]),
                decimal(&band["refused_per_second"]),
            ]
        })
        .collect();
    table::lines(columns, &rows)
}

fn backend_table(backends: &[&Value]) -> Vec<String> {
    let columns = [
        ("BACKEND", false),
        ("state", false),
        ("in flight", true),
        ("of", true),
        ("first byte", true),
        ("runs", true),
        ("queues", true),
        ("KV", true),
        ("why", false),
    ];
    let row = |backend: &&Value| {
        let engine = &backend["engine"];
        let why = [&backend["reason"], &backend["last_error"], &backend["binding"]];
        let why = why.into_iter().find_map(|why| why.as_str()).unwrap_or_default();
        [
            text(&backend["id"]).to_owned(),
            state_word(text(&backend["state"])),
            count(&backend["in_flight"]),
            count(&backend["watermark"]),
            millis(&backend["first_byte_ms"]),
            count(&engine["running"]),
            count(&engine["waiting"]),
            percent(&engine["kv_used"]),
            why.to_owned(),
        ]
    };
    table::lines(columns, &backends.iter().map(row).collect::<Vec<_>>())
}

/// The word for people: findings call a backend down that `/backends` calls unready.
fn state_word(state: &str) -> String {
    if state == "unready" { "down".to_owned() } else { state.replace('_', " ") }
}

fn flow_lines(state: &ViewState, room: usize) -> Vec<(String, Style)> {
    let flows = state.entries("flows", "name");
    let scroll = state.scroll.min(flows.len().saturating_sub(room));
    let shown: Vec<&Value> = flows.iter().copied().skip(scroll).take(room).collect();
    let columns = [
        ("FLOW", false),
        ("waiting", true),
        ("in flight", true),
        ("oldest", true),
        ("share", true),
        ("fair", true),
        ("refused", true),
    ];
    let row = |flow: &&Value| {
        [
            text(&flow["name"]).to_owned(),
            count(&flow["queue_depth"]),
            count(&flow["in_flight"]),
            time(&flow["oldest_seconds"]),
            percent(&flow["share"]),
            percent(&flow["fair_share"]),
            count(&flow["refused"]),
        ]
    };
    let mut lines = titled(table::lines(columns, &shown.iter().map(row).collect::<Vec<_>>()));
    lines.extend(left_out(flows.len() - shown.len(), &state.status, "flows_left_out"));
    lines
}

/// A line that says how many entries are not shown, here and in the status.
fn left_out(hidden: usize, status: &Value, field: &str) -> Option<(String, Style)> {
    let others = hidden as u64 + status[field].as_u64().unwrap_or(0);
    (others > 0).then(|| (format!("and {others} more"), FAINT))
}

fn help(state: &ViewState) -> String {
    if state.edits_filter {
        return format!("filter: {}_   Enter keeps it, Esc clears it", state.filter);
    }
    let order = if state.reversed { ", reversed" } else { "" };
    let filter = match state.filter.as_str() {
        "" => String::new(),
        filter => format!("   filter: {filter}"),
    };
    let sort = SORTS[state.sort];
    format!("q quit  s sort ({sort}{order})  r reverse  / filter  p pause  ↑↓ flows{filter}")
}

/// A text in lines of this width, each with the indent of the text; none if the text is blank.
fn wrapped(text: &str, width: usize) -> impl Iterator<Item = String> {
    let indent = &text[..text.len() - text.trim_start().len()];
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{indent}{word}")),
        }
    }
    lines.into_iter()
}

/// A line that fits the width, or the same in several lines.
fn fitted(line: String, width: usize) -> Vec<String> {
    if line.chars().count() <= width { vec![line] } else { wrapped(&line, width).collect() }
}

/// A blank line, and a table whose titles are bold.
fn titled(table: Vec<String>) -> Vec<(String, Style)> {
    let mut lines = vec![(String::new(), 0)];
    lines.extend(
        table.into_iter().enumerate().map(|(at, line)| (line, if at == 0 { BOLD } else { 0 })),
    );
    lines
}

fn style(level: &Value) -> Style {
    match level.as_str() {
        Some("ok") => GREEN,
        Some("trouble") => RED,
        Some("note") => FAINT,
        Some(_) => YELLOW,
        None => 0,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

// === impl Painter ===

impl Painter {
    fn paint(self, text: &str, style: Style) -> String {
        if style == 0 || !self.colours || text.is_empty() {
            return text.to_owned();
        }
        format!("\x1b[{style}m{text}\x1b[0m")
    }
}

#[cfg(test)]
mod tests;
