//! Model servers on this machine, for a command that writes a configuration.

use std::io;

use crate::backend;
use crate::config::settings::BackendSpec;
use crate::task;

/// The usual ports of model servers.
pub const LOCAL_PORTS: [u16; 5] = backend::LOCAL_PORTS;

/// A model server that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalServer {
    /// A name for it.
    pub id: String,
    /// Its address.
    pub url: String,
    /// Its software, as the key `kind` of a backend names it.
    pub kind: &'static str,
}

/// Looks once for model servers on these ports of this machine.
pub fn local_servers(ports: &[u16]) -> io::Result<Vec<LocalServer>> {
    let found = task::runtime()?.block_on(backend::look(ports, &[]));
    let server =
        |spec: BackendSpec| LocalServer { id: spec.id, url: spec.url, kind: spec.kind.name() };
    Ok(found.into_iter().map(server).collect())
}
