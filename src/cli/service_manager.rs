//! Tells systemd that the program is ready (`Type=notify`).
//!
//! One datagram to the socket that NOTIFY_SOCKET names, without a library. `systemctl start` then
//! returns when the listener accepts requests, and a unit that is ordered after Tidegate finds it.

use std::io;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Says that the listeners are open. Without a service manager this does nothing.
pub(super) fn ready() {
    // A manager that hears nothing ends the service after its start timeout, and says why. A
    // variable that was inherited from elsewhere must not end a program that can serve.
    let _ = send("READY=1");
}

fn send(state: &str) -> io::Result<()> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let name = name.as_encoded_bytes();
    // A leading @ stands for the zero byte of an abstract name.
    let address = match name.strip_prefix(b"@") {
        #[cfg(target_os = "linux")]
        Some(rest) => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(String::from_utf8_lossy(name).as_ref())?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
