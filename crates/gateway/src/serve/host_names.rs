//! Names in `Host`: which of them a stranger may own.
//!
//! The owner of a domain can make its names point to any address, also to one of this machine (DNS
//! rebinding). Nobody can register a name without a dot, a name of a domain that is kept for local
//! networks, or the name of this machine. An address is no name, also one in another form such as
//! `127.1`: no domain ends in a number, so all programs read it as an address or refuse it.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

/// The last parts of names that nobody can register, because the public DNS does not have them:
/// those of RFC 6762 (Appendix G), 8375 and 6761, and that of services in Kubernetes.
const LOCAL_DOMAINS: [&str; 12] = [
    "localhost",
    "local",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "home.arpa",
    "svc",
    "test",
    "invalid",
];

/// The names of this machine that have a dot, in lower case.
static OWN_NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    own_names(&read("/proc/sys/kernel/hostname"), &read("/etc/resolv.conf"))
});

/// The most digits of a port.
const PORT_MAX: usize = 5;

/// Whether a host is a name or an address, perhaps with a port, that all programs read alike. An
/// empty one is none, as that of a client which asks for no host.
pub(super) fn is_well_formed(host: &str) -> bool {
    let (name, port) = split(host);
    let is_port = port.len() <= PORT_MAX && port.bytes().all(|digit| digit.is_ascii_digit());
    let address = name.strip_prefix('[').map(|rest| rest.strip_suffix(']').unwrap_or_default());
    is_port
        && match address {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => name.bytes().all(|letter| IN_NAME[usize::from(letter)]),
        }
}

/// By byte, whether a name may have it: a table takes fewer instructions than comparisons.
const IN_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut letter = 0;
    while letter < table.len() {
        let byte = letter as u8;
        table[letter] = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        letter += 1;
    }
    table
};

/// The name or address of a host, and its port.
fn split(host: &str) -> (&str, &str) {
    let address = host.starts_with('[').then(|| host.rfind(']')).flatten();
    let behind = address.map_or(0, |end| end + 1);
    match host.as_bytes()[behind..].iter().position(|&letter| letter == b':') {
        Some(at) => (&host[..behind + at], &host[behind + at + 1..]),
        None => (host, ""),
    }
}

/// Whether a well-formed host is a name that a stranger may own.
pub(super) fn is_public(host: &str) -> bool {
    let (name, _) = split(host);
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let is_address = name.starts_with('[') || ends_in_number(&name);
    let is_in =
        |domain: &&str| name.strip_suffix(*domain).is_some_and(|before| before.ends_with('.'));
    let is_local = is_address || !name.contains('.') || LOCAL_DOMAINS.iter().any(is_in);
    !is_local && !OWN_NAMES.contains(&name)
}

/// Whether the last part of a name is a number: so WHATWG's standard of URLs tells addresses from
/// names.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let hex = last.strip_prefix("0x");
    let is_decimal = !last.is_empty() && last.bytes().all(|digit| digit.is_ascii_digit());
    is_decimal || hex.is_some_and(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// The machine's name by itself and in the domains where its resolver looks for short names.
fn own_names(hostname: &str, resolver: &str) -> Vec<String> {
    let name = hostname.trim().to_ascii_lowercase();
    let words = resolver.lines().map(str::split_ascii_whitespace);
    let searched = words
        .filter_map(|mut words| matches!(words.next(), Some("search" | "domain")).then_some(words));
    let short = name.split('.').next().unwrap_or_default();
    let full = searched
        .flatten()
        .map(|domain| format!("{short}.{}", domain.trim_end_matches('.').to_ascii_lowercase()));
    let names: Vec<String> = full.chain([name.clone()]).collect();
    names.into_iter().filter(|name| !short.is_empty() && name.contains('.')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x05_names_that_a_stranger_may_own_are_told_from_others() {
        for host in [
            "localhost:8430",
            "127.0.0.1",
            "10.1.2.3:80",
            "[::1]:8430",
            "gateway",
            "a.localhost:1",
            "tidegate.models.svc:8430",
            "tidegate.models.svc.cluster.local",
            "gateway.lan.",
            "nas.home.arpa",
            "127.1:80",
            "0x7F.0.0.1",
            "2130706433",
            "1.0x",
        ] {
            assert!(!is_public(host), "{host}");
        }
        for host in [
            "attacker.example",
            "attacker.example:8430",
            "127.0.0.1.example",
            "a.b.",
            "svc.attacker.example",
            "notlocal.xlocal",
            "127.1.example",
            "0x7f.0x7g",
        ] {
            assert!(is_public(host), "{host}");
        }
    }

    #[test]
    fn x05_a_host_has_one_form() {
        for host in ["", "a", "a_b.c-d:80", "127.1:", "[::1]", "[::ffff:1.2.3.4]:65535"] {
            assert!(is_well_formed(host), "{host}");
        }
        for host in
            ["a:+80", "a:80:90", "a:123456", "a@b", "a b", "[::1", "::1", "[::1]a", "[a]", "a]:1"]
        {
            assert!(!is_well_formed(host), "{host}");
        }
    }

    #[test]
    fn x05_the_machine_has_its_name_in_each_of_its_domains() {
        let resolver = "nameserver 10.0.0.1\nsearch Corp.example. lab.example\noptions ndots:5\n";
        let named = |hostname| own_names(hostname, resolver);
        assert_eq!(named("Gate\n"), ["gate.corp.example", "gate.lab.example"]);
        assert_eq!(
            named("gate.corp.example"),
            ["gate.corp.example", "gate.lab.example", "gate.corp.example"]
        );
        assert!(named("").is_empty());
        assert!(own_names("gate", "").is_empty());
    }
}
