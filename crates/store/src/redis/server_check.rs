//! Checks the settings of the server when the engine first connects.

use super::connection::{Connection, Durability};
use super::pipeline::Command;
use crate::error::{ErrorKind, StoreError};

/// Returns a warning for each setting that may lose messages. A cluster that is not configured as
/// one is an error.
pub(super) async fn warnings(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let command = Command::new("INFO", "all");
    let info: String = match connection.query(command, Durability::Primary).await {
        Ok(info) => info,
        Err(error) if error.kind == ErrorKind::Unavailable => return Err(error),
        // The user may not run INFO.
        Err(_) => return Ok(Vec::new()),
    };
    let field = |name: &str| {
        let lines = info.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(field, _)| *field == name).map(|(_, value)| value.trim()).next()
    };
    // The first name is that of Redis, the second that of Valkey.
    let mode = field("redis_mode").or_else(|| field("server_mode"));
    if !connection.is_cluster() && mode == Some("cluster") {
        let text = "this Redis is a cluster: set cluster = true";
        return Err(StoreError::new(ErrorKind::Invalid, text));
    }
    let mut warnings = Vec::new();
    if field("aof_enabled") == Some("0") {
        warnings.push(
            "Redis keeps no log of writes (appendonly no): messages accepted since its last \
             snapshot are lost when it stops"
                .to_owned(),
        );
    }
    let (limit, policy) = (field("maxmemory"), field("maxmemory_policy"));
    if limit.is_some_and(|limit| limit != "0") && policy.is_some_and(|name| name != "noeviction") {
        warnings.push(format!(
            "Redis evicts keys, messages among them, when its memory is full \
             (maxmemory-policy {}): set noeviction",
            policy.unwrap_or_default()
        ));
    }
    Ok(warnings)
}
