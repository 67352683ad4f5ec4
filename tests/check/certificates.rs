//! X04: what `check` says about the files of certificates and keys.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rcgen::date_time_ymd;

use super::{Folder, text};
use crate::support::tls::Authority;

const TLS: &str = "[server.tls]\ncert_file = 'a.crt'\nkey_file = 'a.key'\n";

/// What `check` prints and says of a file, and whether it succeeds.
fn checked(folder: &Folder, file: &str) -> (bool, String, String) {
    fs::write(folder.path().join("t.toml"), file).unwrap();
    let output = folder.check(&["t.toml"]);
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn x04_check_reads_the_certificates_and_their_keys() {
    let folder = Folder::new("check-tls");
    let authority = Authority::new("test");
    let write = |name: &str, content: &str| fs::write(folder.path().join(name), content).unwrap();
    let (success, _, said) = checked(&folder, TLS);
    assert!(!success && said.contains("a.crt cannot be read"), "{said}");
    let keyed = authority.issue(&["gw.example", "127.0.0.1"]);
    write("a.crt", &keyed.certificate);
    write("a.key", &authority.issue(&["gw.example"]).key);
    let (success, _, said) = checked(&folder, TLS);
    let expected = "server.tls cannot be used: the key in a.key does not belong to the first \
                    certificate in a.crt";
    assert!(!success && said.contains(expected), "{said}");
    write("a.key", &keyed.certificate);
    let (success, _, said) = checked(&folder, TLS);
    assert!(!success && said.contains("a.key has no private key without a password"), "{said}");
    write("a.key", &keyed.key);
    let allow = |mode: u32| {
        let key = folder.path().join("a.key");
        fs::set_permissions(key, fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(0o644);
    let (success, _, said) = checked(&folder, TLS);
    let expected = "warning: t.toml:3: server.tls.key_file is a.key, which other users may read: \
                    take their right away with chmod o-r";
    assert!(success && said.contains(expected), "{said}");
    allow(0o640);
    let (success, printed, said) = checked(&folder, TLS);
    assert!(success && said.is_empty(), "{said}");
    let line = "tls       a.crt: gw.example, 127.0.0.1, valid until Sun, 01 Jan 4096 00:00:00 GMT";
    assert!(printed.contains(line), "{printed}");
    let expired = authority
        .issue_with(&["gw.example"], |params| params.not_after = date_time_ymd(2020, 1, 1));
    write("a.crt", &expired.certificate);
    write("a.key", &expired.key);
    let (success, _, said) = checked(&folder, TLS);
    let expected = "warning: t.toml:2: server.tls.cert_file is a.crt, which expired on \
                    Wed, 01 Jan 2020 00:00:00 GMT: clients refuse it";
    assert!(success && said.contains(expected), "{said}");
}

#[test]
fn x04_check_finds_settings_of_tls_that_contradict_each_other() {
    let folder = Folder::new("check-tls-settings");
    let cases = [
        ("[server.tls]\ncert_file = 'a'", "server.tls.key_file is missing"),
        ("[server.tls]\nkey_file = 'a'", "server.tls.cert_file is missing"),
        ("[server.tls]\nclient_ca_file = 'a'", "client_ca_file has no effect without TLS"),
        ("[admin]\ntls = true", "admin.tls is true, but [server.tls] has no certificate"),
        ("[[backends]]\nurl = 'https://h'\nca_file = 'none.pem'", "none.pem cannot be read"),
    ];
    for (file, expected) in cases {
        let (success, _, said) = checked(&folder, file);
        assert!(!success && said.contains(expected), "{file}: {said}");
    }
    let plain = "[[backends]]\nurl = 'http://h'\ntls_name = 'x'";
    let (success, _, said) = checked(&folder, plain);
    let expected = "backends[0].tls_name has no effect: the URL does not begin with https";
    assert!(success && said.contains(expected), "{said}");
}
