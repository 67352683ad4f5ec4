//! The address by which other machines reach this one.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

/// An address of this machine that is not a loopback address. Nothing is sent: the system only
/// chooses the address from which it would send.
pub(crate) fn own_address() -> IpAddr {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    // A documentation address, which no machine has.
    socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9)).unwrap();
    socket.local_addr().unwrap().ip()
}
