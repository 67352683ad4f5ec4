//! Names in `Host`: which of them a stranger may own.
//!
//! The owner of a domain can make its names point to any address, also to one of this machine (DNS
//! rebinding). Nobody can register a name without a dot, a name of a domain that is kept for local
//! networks, or the name of this machine. An address is no name.

use std::net::IpAddr;
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

/// Whether a host with its port is a name that a stranger may own.
pub(super) fn is_public(host: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|digit| digit.is_ascii_digit());
    let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(at, _)| at);
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let is_address = name.parse::<IpAddr>().is_ok() || name.starts_with('[');
    let is_in =
        |domain: &&str| name.strip_suffix(*domain).is_some_and(|before| before.ends_with('.'));
    let is_local = is_address || !name.contains('.') || LOCAL_DOMAINS.iter().any(is_in);
    !is_local && !OWN_NAMES.contains(&name)
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
            "a:b.c",
        ] {
            assert!(is_public(host), "{host}");
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
