//! Numbers as tables show them: no more digits than mean something.

pub(super) fn whole(value: f64) -> String {
    format!("{value:.0}")
}

pub(super) fn rate(value: f64) -> String {
    format!("{value:.2}")
}

pub(super) fn tenth(value: f64) -> String {
    format!("{value:.1}")
}

/// A part of one in percent.
pub(super) fn percent(value: f64) -> String {
    format!("{:.1} %", value * 100.0)
}

pub(super) fn ratio(value: f64) -> String {
    format!("{value:.3}")
}

/// Seconds.
pub(super) fn seconds(value: f64) -> String {
    match value {
        small if small < 1.0 => format!("{small:.3}"),
        small if small < 10.0 => format!("{small:.2}"),
        large => format!("{large:.1}"),
    }
}

/// Seconds as milliseconds.
pub(super) fn millis(value: f64) -> String {
    format!("{:.1}", value * 1000.0)
}

/// A length of time in words.
pub(super) fn span(seconds: f64) -> String {
    match seconds {
        short if short < 120.0 => format!("{short:.0} seconds"),
        long if long < 7200.0 => format!("{:.0} minutes", long / 60.0),
        long => format!("{:.1} hours", long / 3600.0),
    }
}

/// A number of any size, in four digits or so.
pub(super) fn any(value: f64) -> String {
    match value.abs() {
        endless if endless.is_infinite() => "∞".to_owned(),
        0.0 => "0".to_owned(),
        tiny if tiny < 0.001 => format!("{value:.1e}"),
        small if small < 10.0 => format!("{value:.3}"),
        middle if middle < 1000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
