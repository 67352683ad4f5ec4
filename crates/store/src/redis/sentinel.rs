//! Sentinels: servers that watch a group of servers, choose its primary, and name it to clients.

use redis::{ConnectionAddr, RedisConnectionInfo, RedisResult};

use super::topology::Server;
use crate::error::{ErrorKind, StoreError};

/// The primary of a service, as one sentinel names it. User, password, database and TLS of the
/// primary are those in the address of the sentinel. A sentinel itself gets them if it asks for a
/// password, because an `AUTH` without need is an error there.
pub(super) async fn primary(sentinel: &Server, service: &str) -> Result<Server, StoreError> {
    let named = match ask(sentinel, RedisConnectionInfo::default(), service).await {
        Err(error) if error.code() == Some("NOAUTH") => {
            ask(sentinel, credentials(sentinel), service).await
        }
        other => other,
    };
    let Some((host, port)) = named? else {
        let what = format!("it is a sentinel that watches no {service:?}");
        return Err(StoreError::new(ErrorKind::Unavailable, what));
    };
    let wrong = || format!("the sentinel names {host:?} with port {port:?}");
    let port = port.parse().map_err(|_| StoreError::new(ErrorKind::Unavailable, wrong()))?;
    Ok(at(sentinel, host, port))
}

/// The user and the password in the address of a server.
fn credentials(server: &Server) -> RedisConnectionInfo {
    let known = server.info.redis_settings();
    let mut settings = RedisConnectionInfo::default();
    if let Some(user) = known.username() {
        settings = settings.set_username(user);
    }
    if let Some(password) = known.password() {
        settings = settings.set_password(password);
    }
    settings
}

async fn ask(
    sentinel: &Server,
    settings: RedisConnectionInfo,
    service: &str,
) -> RedisResult<Option<(String, String)>> {
    let info = sentinel.info.clone().set_redis_settings(settings);
    let asked = Server { shown: String::new(), info };
    let mut connection = asked.open().await?;
    let mut command = redis::cmd("SENTINEL");
    command.arg("get-master-addr-by-name").arg(service).query_async(&mut connection).await
}

/// A server that is reached like this one, at another address.
fn at(like: &Server, host: String, port: u16) -> Server {
    let shown = format!("{host}:{port}, named by {}", like.shown);
    let address = match like.info.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    Server { shown, info: like.info.clone().set_addr(address) }
}
