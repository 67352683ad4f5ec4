//! What a request with TLS costs in processor time, beside nginx and HAProxy with TLS, on kept
//! connections and with a connection for every request. Each is measured without TLS, too.

use anyhow::Result;

use super::cost::{self, CLIENTS, SHORT};
use super::dialing::{self, Dialing};
use super::load::{ClosedLoop, Request};
use super::measured::{Measured, play, table};
use super::origin::{Behaviour, Origin};
use super::proxies::{Proxy, has_haproxy, has_nginx};
use super::settings::{flow_control, with_tls};
use crate::report::Table;
use crate::runner::Bench;

const OURS: &str = "gateway, TLS";

/// Requests on kept connections.
pub(crate) async fn kept(bench: &mut Bench) -> Result<Table> {
    measure(bench, "64 kept connections", |dialing| dialing.clone()).await
}

/// A connection and a whole handshake for every request.
pub(crate) async fn new_connections(bench: &mut Bench) -> Result<Table> {
    measure(bench, "a connection for each, 64 at once", Dialing::for_every_request).await
}

async fn measure(
    bench: &mut Bench,
    manner: &str,
    of: impl Fn(&Dialing) -> Dialing,
) -> Result<Table> {
    let origin = Origin::start(Behaviour::default())?;
    let (files, tls) = dialing::certificate(&mut bench.fixture)?;
    let (plain, tls) = (of(&Dialing::default()), of(&tls));
    let mut peers = vec![
        (Proxy::ours(OURS, with_tls(&files)), &tls),
        (Proxy::ours("gateway", flow_control()), &plain),
    ];
    if has_nginx() {
        peers.push((Proxy::NginxTls { files: files.clone() }, &tls));
        peers.push((Proxy::Nginx { limit: None }, &plain));
    }
    if has_haproxy() {
        peers.push((Proxy::Haproxy { limit: None, tls: Some(files.clone()) }, &tls));
        peers.push((Proxy::Haproxy { limit: None, tls: None }, &plain));
    }
    let mut all = Vec::new();
    for (peer, dialing) in peers {
        let load = cost::load(CLIENTS, Request::chat(false, ""), SHORT);
        let load = ClosedLoop { dialing: dialing.clone(), ..load };
        all.push(Measured::start(bench, &origin, &peer, load).await?);
    }
    play(bench, &mut all, &origin).await?;
    let title =
        format!("A request with TLS 1.3 (AES-128-GCM, X25519, P-256): POST of 1 KB, {manner}");
    Ok(table(title, &all, OURS))
}
