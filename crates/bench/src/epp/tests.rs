//! The bench of the picker measures what it says: the shipped Envoy, true decisions.

use std::net::SocketAddr;

use super::envoy::{Mode, bootstrap};

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

#[test]
fn the_bootstraps_are_the_shipped_ones_with_other_ports() {
    let whole = bootstrap(Mode::Whole, at(1), Some(at(2)), at(3)).unwrap();
    assert!(whole.contains("ext_proc") && whole.contains("port_value: 2 }"));
    assert!(whole.contains("response_body_mode: FULL_DUPLEX_STREAMED"));
    let heads = bootstrap(Mode::HeadsOnly, at(1), Some(at(2)), at(3)).unwrap();
    assert!(heads.contains("response_body_mode: NONE"));
    let alone = bootstrap(Mode::Alone, at(1), None, at(3)).unwrap();
    assert!(!alone.contains("ext_proc.v3") && alone.contains("port_value: 3 }"));
    assert!(alone.contains("router.v3.Router") && !alone.contains("type: ORIGINAL_DST"));
}
