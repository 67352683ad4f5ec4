//! X05, X06: keys and pages that lock or open something else than an operator may think.

use std::fs;

use super::{Folder, text};

/// A stored key, as `tidegate key new` writes it.
fn line(number: u8, holder: &str, rest: &str) -> String {
    format!("sha256:{} {holder} {rest}\n", format!("{number:02x}").repeat(32))
}

/// The warnings of `check` about a file, with this file of keys.
fn warnings(name: &str, keys: &str, file: &str) -> Vec<String> {
    let folder = Folder::new(name);
    fs::write(folder.path().join("keys"), keys).unwrap();
    fs::write(folder.path().join("t.toml"), file).unwrap();
    let output = folder.check(&["t.toml"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    said.lines().map(|line| line.trim_start_matches("warning: ").to_owned()).collect()
}

const TENANTS: &str = "[auth]\nkey_file = 'keys'\n\
    [[tenants]]\nname = 'a'\n[[tenants]]\nname = 'b'\n";

#[test]
fn x06_check_warns_of_accounts_without_tenants() {
    let usage = "[usage]\nfile = 'usage.db'\n";
    let expected =
        "t.toml:2: usage.file stays empty: accounts are kept by tenant, and there are no tenants";
    assert_eq!(warnings("check-usage", "", usage), [expected]);
}

#[test]
fn x06_check_counts_the_keys_of_operators() {
    let folder = Folder::new("check-admins");
    let admins = line(8, "admin:read", "oncall") + &line(9, "admin:change", "operator");
    let keys = line(1, "a", "laptop") + &line(2, "b", "ci") + &admins;
    fs::write(folder.path().join("keys"), keys).unwrap();
    fs::write(folder.path().join("t.toml"), TENANTS).unwrap();
    let printed = text(&folder.check(&["t.toml"]).stdout);
    let expected = "admin     2 keys for the status pages, 1 to read, 1 to change\n";
    assert!(printed.contains(expected), "{printed}");
}

#[test]
fn x06_check_warns_of_expired_keys_and_of_tenants_without_keys() {
    let admin = line(9, "admin:read", "operator");
    let keys = line(1, "a", "laptop") + &line(2, "a", "ci 2020-01-01T00:00:00Z") + &admin;
    let said = warnings("check-expired", &keys, TENANTS);
    let expected = [
        "t.toml:2: auth.key_file has the key \"ci\", which expired at 2020-01-01T00:00:00Z: it is \
         refused",
        "t.toml:6: tenants[1].name is \"b\", which has no key: make one with `tidegate key new`",
    ];
    assert_eq!(said, expected);
    let keys = line(1, "a", "laptop") + &line(2, "b", "ci 2999-01-01T00:00:00Z") + &admin;
    assert_eq!(warnings("check-expired", &keys, TENANTS), [""; 0]);
}

#[test]
fn x06_check_warns_of_pages_that_all_machines_see_or_no_client() {
    let name = "check-pages";
    let keys = line(1, "a", "laptop") + &line(2, "b", "ci");
    let closed = "admin.without_key is not set, and there is no admin key: no client sees the \
                  status pages; make a key with `tidegate key new --admin read`";
    let said = warnings(name, &keys, TENANTS);
    assert!(said.len() == 1 && said[0].ends_with(closed), "{said:?}");
    let open = "[server]\nlisten = '0.0.0.0:8430'\n";
    let seen = "t.toml:2: server.listen is 0.0.0.0:8430, which other machines reach, and they see \
                the status pages: make a key with `tidegate key new --admin read`, or set \
                admin.listen";
    assert_eq!(warnings(name, "", open), [seen]);
    for more in ["[admin]\nwithout_key = 'all'\n", "[admin]\nlisten = '127.0.0.1:8431'\n"] {
        assert_eq!(warnings(name, "", &format!("{open}{more}")), [""; 0], "{more}");
    }
    let folder = Folder::new(name);
    fs::write(folder.path().join("t.toml"), "[admin]\nlisten = '0.0.0.0:8431'\n").unwrap();
    let output = folder.check(&["t.toml"]);
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("which other machines reach"), "{said}");
}

#[test]
fn x06_x05_check_shows_the_one_band_of_a_tenant_under_weighted_bands() {
    let folder = Folder::new("check-weights");
    let weights = "[queue]\nbands = { critical = 4, high = 3, normal = 2, best_effort = 1 }\n";
    let rule = "[[band_rules]]\nmatch = { model = 'm' }\nband = 'high'\n";
    let file = "[auth]\nkey_file = 'keys'\n[[tenants]]\nname = 'a'\nband_max = 'critical'\n\
        [[tenants]]\nname = 'b'\nband_max = 'high'\nband = 'high'\n";
    let keys = line(1, "a", "x") + &line(2, "b", "y") + &line(9, "admin:read", "z");
    fs::write(folder.path().join("keys"), keys).unwrap();
    fs::write(folder.path().join("t.toml"), format!("{file}{rule}{weights}")).unwrap();
    let output = folder.check(&["t.toml"]);
    let printed = text(&output.stdout);
    assert!(printed.contains("a: 1 key, always normal\n"), "{printed}");
    assert!(printed.contains("b: 1 key, always high\n"), "{printed}");
    let said = text(&output.stderr);
    let why = "has no effect: with weights in queue.bands all requests of a tenant have its `band`";
    let expected = ["t.toml:5: tenants[0].band_max", "t.toml:10: band_rules[0]"];
    let expected = expected.map(|at| format!("warning: {at} {why}\n")).concat();
    assert_eq!(said, expected);
}
