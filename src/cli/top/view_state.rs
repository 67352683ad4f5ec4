//! What the view shows: the last status, and what the keys have chosen.

use console::Key;
use serde_json::Value;

/// The columns by which flows and backends are sorted.
pub(super) const SORTS: [&str; 4] = ["waiting", "in flight", "oldest", "name"];

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct ViewState {
    pub(super) url: String,
    pub(super) status: Value,
    /// Why the last reading failed.
    pub(super) failure: Option<String>,
    pub(super) filter: String,
    /// Whether keys go into the filter.
    pub(super) edits_filter: bool,
    pub(super) paused: bool,
    /// A position in [`SORTS`].
    pub(super) sort: usize,
    pub(super) reversed: bool,
    /// The flows that are scrolled out at the top.
    pub(super) scroll: usize,
}

/// What a key changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    View,
    Quit,
}

// === impl ViewState ===

impl ViewState {
    pub(super) fn new(url: String, filter: String) -> Self {
        Self {
            url,
            status: Value::Null,
            failure: None,
            filter,
            edits_filter: false,
            paused: false,
            sort: 0,
            reversed: false,
            scroll: 0,
        }
    }

    /// Takes a reading. While it is paused, the view keeps the last one.
    pub(super) fn read(&mut self, status: Result<Value, String>) {
        match status {
            Ok(status) => {
                self.failure = None;
                if !self.paused {
                    self.status = status;
                }
            }
            Err(failure) => self.failure = Some(failure),
        }
    }

    pub(super) fn press(&mut self, key: &Key) -> Change {
        if self.edits_filter {
            self.edit_filter(key);
            return if *key == Key::CtrlC { Change::Quit } else { Change::View };
        }
        match key {
            Key::Char('q') | Key::Escape | Key::CtrlC => return Change::Quit,
            Key::Char('s') => self.sort = (self.sort + 1) % SORTS.len(),
            Key::Char('r') => self.reversed = !self.reversed,
            Key::Char('/') => self.edits_filter = true,
            Key::Char('p' | ' ') => self.paused = !self.paused,
            Key::ArrowUp | Key::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            Key::ArrowDown | Key::Char('j') => self.scroll = self.scroll.saturating_add(1),
            Key::Home => self.scroll = 0,
            _ => {}
        }
        Change::View
    }

    fn edit_filter(&mut self, key: &Key) {
        match key {
            Key::Enter => self.edits_filter = false,
            Key::Escape => {
                self.filter.clear();
                self.edits_filter = false;
            }
            Key::Backspace => _ = self.filter.pop(),
            Key::Char(letter) if !letter.is_control() && self.filter.len() < 100 => {
                self.filter.push(*letter);
            }
            _ => {}
        }
        self.scroll = 0;
    }

    /// The entries of a list that the filter lets through, in the chosen order.
    pub(super) fn entries(&self, list: &str, name: &str) -> Vec<&Value> {
        let all = self.status[list].as_array().map(Vec::as_slice).unwrap_or_default();
        let wanted = self.filter.to_lowercase();
        let text = |entry: &Value| entry[name].as_str().unwrap_or_default().to_lowercase();
        let mut entries: Vec<&Value> =
            all.iter().filter(|entry| text(entry).contains(&wanted)).collect();
        let number = |entry: &Value| {
            let fields: &[&str] = match SORTS[self.sort] {
                "waiting" => &["queue_depth", "waiting"],
                "in flight" => &["in_flight"],
                "oldest" => &["oldest_seconds", "silent_seconds"],
                _ => &[],
            };
            fields.iter().find_map(|field| entry[*field].as_f64()).unwrap_or(0.0)
        };
        // Equal entries keep the order of the gateway, which is the most interesting first.
        entries.sort_by(|one, other| number(other).total_cmp(&number(one)));
        if SORTS[self.sort] == "name" {
            entries.sort_by_key(|entry| text(entry));
        }
        if self.reversed {
            entries.reverse();
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(state: &ViewState) -> Vec<&str> {
        state.entries("flows", "name").iter().map(|flow| flow["name"].as_str().unwrap()).collect()
    }

    #[test]
    fn m03_keys_sort_filter_and_pause() {
        let mut state = ViewState::new("http://h:1".into(), String::new());
        let flow = |name: &str, waiting: u32, in_flight: u32| {
            let depth = json!(waiting);
            json!({"name": name, "queue_depth": depth, "in_flight": in_flight})
        };
        let flows = json!({"flows": [flow("Lab", 1, 9), flow("web", 5, 0), flow("ci", 3, 4)]});
        state.read(Ok(flows));
        assert_eq!(names(&state), ["web", "ci", "Lab"]);
        state.press(&Key::Char('s'));
        assert_eq!(names(&state), ["Lab", "ci", "web"]);
        state.press(&Key::Char('r'));
        assert_eq!(names(&state), ["web", "ci", "Lab"]);
        for key in [Key::Char('/'), Key::Char('L'), Key::Char('q'), Key::Backspace, Key::Enter] {
            assert_eq!(state.press(&key), Change::View);
        }
        assert_eq!((state.filter.as_str(), names(&state)), ("L", vec!["Lab"]));
        state.press(&Key::Char(' '));
        state.read(Ok(json!({"flows": []})));
        assert_eq!(names(&state), ["Lab"], "paused");
        state.press(&Key::Char('p'));
        state.read(Err("gone".into()));
        assert_eq!((names(&state), state.failure.as_deref()), (vec!["Lab"], Some("gone")));
        state.read(Ok(json!({"flows": []})));
        assert!(names(&state).is_empty() && state.failure.is_none());
        assert_eq!(state.press(&Key::Char('q')), Change::Quit);
    }
}
