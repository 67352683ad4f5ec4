//! Rules about API keys and certificates that expire.

use super::finding::{Level, StatusFinding};
use super::sentence::span;
use super::situation::{CertificateExpiry, Situation};

pub(super) fn check(situation: &Situation, found: &mut Vec<StatusFinding>) {
    found.extend(keys(situation));
    found.extend(situation.certificates.iter().map(certificate));
}

fn keys(situation: &Situation) -> Option<StatusFinding> {
    let soonest = situation.keys.first()?;
    let expires = if soonest.expires_in_seconds <= 0.0 {
        "has expired".to_owned()
    } else {
        format!("expires in {}", span(soonest.expires_in_seconds))
    };
    let more = situation.keys.len() - 1;
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let owner = soonest.tenant.as_ref().map(|tenant| format!(" of {tenant}")).unwrap_or_default();
    let text = format!("the API key {}{owner} {expires}{more}", soonest.name);
    let finding = StatusFinding::new("key_expires", Level::Warning, text)
        .about(&soonest.name)
        .figure("expires_in_seconds", soonest.expires_in_seconds)
        .advise("Make a new key with `tidegate key`, hand it out, then remove the old line.");
    Some(finding)
}

fn certificate(certificate: &CertificateExpiry) -> StatusFinding {
    let (level, validity) = validity(certificate);
    let text = format!("the certificate in {} {validity}", certificate.file);
    StatusFinding::new("certificate_expires", level, text)
        .about(&certificate.file)
        .figure("expires_in_seconds", certificate.expires_in_seconds)
        .advise(
            "Replace the file and its key. The gateway reads them again by itself, and new \
             connections get the new certificate. If the dates are right, see the clock of this \
             machine.",
        )
}

/// Whether clients accept a certificate, and for how long.
fn validity(certificate: &CertificateExpiry) -> (Level, String) {
    let CertificateExpiry { expires_in_seconds, last_day, valid_yet, .. } = certificate;
    if *expires_in_seconds < 0.0 {
        (Level::Trouble, format!("expired on {last_day}: clients refuse it"))
    } else if !valid_yet {
        (Level::Trouble, "is not valid yet: clients refuse it".to_owned())
    } else {
        let left = span(*expires_in_seconds);
        (Level::Warning, format!("expires in {left}, on {last_day}"))
    }
}
