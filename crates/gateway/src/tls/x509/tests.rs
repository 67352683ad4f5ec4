//! X04: the names and dates of certificates are read, and nothing else is believed.

use proptest::prelude::*;
use rcgen::{CertificateParams, DnType, KeyPair, SanType, date_time_ymd};

use super::*;

fn certificate(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
    let mut params = CertificateParams::new(vec!["gpu.example".into(), "10.0.0.5".into()]).unwrap();
    params.not_before = date_time_ymd(2024, 2, 29);
    params.not_after = date_time_ymd(2060, 1, 1);
    params.distinguished_name.push(DnType::CommonName, "team-a");
    change(&mut params);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

#[test]
fn x04_the_names_and_the_dates_of_a_certificate_are_read() {
    let der = certificate(|params| {
        let uri = "spiffe://cluster/ns/a".try_into().unwrap();
        params.subject_alt_names.push(SanType::URI(uri));
        params.distinguished_name.push(DnType::OrganizationName, "Example");
    });
    let found = Certificate::read(&der).unwrap();
    // 2024-02-29 and 2060-01-01; the second is beyond the two digits of a year.
    assert_eq!((found.not_before, found.not_after), (1_709_164_800, 2_840_140_800));
    assert_eq!(found.common_name.as_deref(), Some("team-a"));
    assert_eq!(found.names, ["gpu.example", "10.0.0.5", "spiffe://cluster/ns/a"]);
}

#[test]
fn x04_a_common_name_that_a_log_must_not_contain_is_an_empty_name() {
    for name in ["a\nb", "", &"x".repeat(300)] {
        let der = certificate(|params| params.distinguished_name.push(DnType::CommonName, name));
        let read = Certificate::read(&der).unwrap();
        assert_eq!(read.common_name.as_deref(), Some(""), "{name:?}");
    }
}

proptest! {
    #[test]
    fn x04_no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Certificate::read(&bytes);
    }

    #[test]
    fn x04_no_change_of_a_certificate_breaks_the_reader(at in 0usize..600, byte in any::<u8>()) {
        let mut der = certificate(|_| {});
        let at = at % der.len();
        der[at] = byte;
        let _ = Certificate::read(&der);
        let _ = Certificate::read(&der[..at]);
    }
}

#[test]
fn x04_fuzz_certificates() {
    let plain = certificate(|_| {});
    let named = certificate(|params| {
        params.distinguished_name.push(DnType::OrganizationName, "Example");
    });
    let words: [&[u8]; 4] =
        [b"\x30\x84\xff\xff\xff\xff", b"\x30\x80", b"\x55\x04\x03", b"\x17\x0d"];
    crate::fuzz::fuzz(
        "certificates",
        &[&plain, &named],
        &words,
        |input, _| match Certificate::read(input) {
            Some(read) => {
                let name = read.common_name.as_deref().unwrap_or_default();
                assert!(!name.contains(['\n', '\r', '\0']), "{name:?}");
                format!("{} names, {}", read.dns_names().len(), read.last_day().len())
            }
            None => "refused".to_owned(),
        },
    );
}
