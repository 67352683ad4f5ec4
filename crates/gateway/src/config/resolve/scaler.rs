//! The section `scaler`.

use flow::ScaleGoal;

use crate::clock;
use crate::config::settings::{EppTls, Scaler, Wake};
use crate::schema::Section;

pub(super) fn scaler(section: &Section<'_>) -> Scaler {
    let scaler = Scaler {
        listen: section.given("listen"),
        tls: section.get("tls"),
        cert_path: section.path("cert_path"),
        quiet: section.get("quiet"),
        streams_max: section.get("streams_max"),
        goal: ScaleGoal {
            utilization: section.get("utilization"),
            drain: clock::span(section.get("drain")),
        },
        wake: section.given("wake_url").map(|url| Wake {
            url,
            again: section.get("wake_again"),
            attempts: section.get("wake_attempts"),
            timeout: section.get("wake_timeout"),
        }),
    };
    if scaler.tls == EppTls::Off && scaler.cert_path.is_some() {
        section.notice("cert_path", "has no effect: scaler.tls is off");
    }
    scaler
}
