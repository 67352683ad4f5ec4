//! The address of a client as a name, which the client cannot invent.

use std::net::IpAddr;

use flow::identity::Attribute;
use http::{HeaderMap, HeaderName};

use crate::config::settings::Config;

/// The name of an address, if flows, sessions or rules use it. An IPv6 address counts by its /64,
/// since one client usually has all addresses of that network.
pub(crate) fn named(config: &Config, address: Option<IpAddr>) -> Option<String> {
    let mut patterns = config.band_rules.iter().flat_map(|rule| &rule.patterns);
    let is_used = config.identity.uses(&Attribute::Address)
        || patterns.any(|(part, _)| *part == Attribute::Address);
    address.filter(|_| is_used).map(name)
}

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client of a request that a proxy forwards: the last address of the list, which the proxy
/// adds. Behind a proxy that adds none, a client writes the whole list, so no right follows from
/// the address.
pub(crate) fn forwarded_for(headers: &HeaderMap) -> Option<IpAddr> {
    let list = headers.get_all(FORWARDED_FOR).iter().next_back()?.to_str().ok()?;
    list.rsplit(',').next()?.trim_ascii().parse().ok()
}

/// The name of an address.
pub(crate) fn name(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x03_the_client_behind_a_proxy_is_the_last_of_its_list() {
        let of = |values: &[&'static str]| {
            let pairs = values.iter().map(|value| (FORWARDED_FOR, value.parse().unwrap()));
            forwarded_for(&pairs.collect())
        };
        let address = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        assert_eq!(of(&["10.0.0.1, 10.0.0.2"]), address("10.0.0.2"));
        assert_eq!(of(&["10.0.0.1", "2001:db8::1"]), address("2001:db8::1"));
        for none in [&[][..], &[""], &["10.0.0.1, unknown"], &["10.0.0.1,"]] {
            assert_eq!(of(none), None, "{none:?}");
        }
    }

    #[test]
    fn q01_an_address_is_named_by_what_a_client_cannot_choose() {
        let name = |text: &str| name(text.parse().unwrap());
        assert_eq!(name("10.0.0.7"), "10.0.0.7");
        assert_eq!(name("::ffff:10.0.0.7"), "10.0.0.7");
        assert_eq!(name("2001:db8:1:2:3::4"), "2001:db8:1:2::");
        assert_eq!(name("2001:db8:1:2:5::6"), name("2001:db8:1:2:3::4"));
        assert_eq!(named(&Config::default(), Some("10.0.0.7".parse().unwrap())), None);
    }
}
