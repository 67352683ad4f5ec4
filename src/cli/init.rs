//! `tidegate init`: looks for model servers and writes a configuration for them.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use gateway::{LOCAL_PORTS, LocalServer, local_servers};

/// Look for model servers on this machine and write a commented configuration.
///
/// Tries the usual ports of Ollama, vLLM, llama.cpp, LM Studio and SGLang on 127.0.0.1. The command
/// does not change a file that exists.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate init                              write tidegate.toml
  tidegate init --ports 8000,8001,8002       look at these ports
  tidegate init gateway.toml && tidegate serve gateway.toml")]
pub(super) struct Init {
    /// The file to write.
    #[arg(value_name = "FILE", default_value = "tidegate.toml")]
    file: PathBuf,
    /// The local ports to try.
    #[arg(long, value_name = "PORT", value_delimiter = ',', default_values_t = LOCAL_PORTS)]
    ports: Vec<u16>,
}

// === impl Init ===

impl Init {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        let Self { file, ports } = self;
        let shown = file.display();
        if file.exists() {
            bail!("{shown} is there already: name another file, or remove it");
        }
        let servers = local_servers(&ports).context("cannot look for model servers")?;
        for LocalServer { url, kind, .. } in &servers {
            writeln!(out, "found     {url} ({kind})")?;
        }
        if servers.is_empty() {
            writeln!(out, "found     no model server on 127.0.0.1 at {ports:?}")?;
        }
        // It may have been made meanwhile.
        let created = OpenOptions::new().write(true).create_new(true).open(&file);
        let mut created = match created {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!("{shown} is there already: name another file, or remove it")
            }
            created => created.with_context(|| format!("cannot write {shown}"))?,
        };
        created.write_all(text(&servers).as_bytes())?;
        writeln!(out, "wrote     {shown}")?;
        writeln!(out, "next      tidegate check {shown} && tidegate serve {shown}")?;
        Ok(())
    }
}

/// The configuration for these servers.
fn text(servers: &[LocalServer]) -> String {
    let mut text = String::from(BEGIN);
    for LocalServer { id, url, kind } in servers {
        text += &format!("\n[[backends]]\nid = \"{id}\"\nurl = \"{url}\"\nkind = \"{kind}\"\n");
    }
    if servers.is_empty() {
        text += NO_SERVER;
    }
    text + END
}

const BEGIN: &str = "# The configuration of Tidegate. docs/CONFIGURATION.md describes every key.
# `tidegate check` explains this file. A running gateway reads it again when it changes.

[server]
listen = \"127.0.0.1:8430\"        # the address for clients; 0.0.0.0:8430 is for other machines too

# The model servers. Their models are read from them.
";

const NO_SERVER: &str = "# While there is none here, the gateway looks at the usual local ports.
# [[backends]]
# id = \"gpu-a\"
# url = \"http://10.0.0.5:8000\"
";

const END: &str = "
# How many requests each backend gets at once is found automatically. To set it:
# [controller]
# watermark_per_backend = 8

[queue]
queue_ttl = \"30s\"                # the longest wait of a request
slo_ttft = \"2s\"                  # the wait for a first token that requests should meet
# flow_by = [\"header:x-team\"]      # each team gets the same share, whatever the others send

# Another name for a model. Requests for a model in this list wait while no backend has it.
# [[models]]
# name = \"chat\"
# targets = [\"llama3\"]

# Keys and limits for teams: docs/SECURITY.md.
# [[tenants]]
# name = \"team-a\"

# Batches that run when backends have room: docs/BATCH.md.
# [batch]
# folder = \"batch\"
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x06_every_line_of_the_written_file_is_a_valid_configuration() {
        let server = |id: &str, kind| LocalServer {
            id: id.into(),
            url: format!("http://127.0.0.1:{id}"),
            kind,
        };
        let servers = [server("8000", "vllm"), server("11434", "ollama")];
        for servers in [&servers[..], &[]] {
            let text = text(servers);
            // Comments that are lines of TOML must be valid as well.
            let example = |line: &str| {
                let rest = line.strip_prefix("# ")?;
                let is_toml = rest.starts_with('[') || rest.contains(" = ");
                is_toml.then(|| rest.to_owned())
            };
            let all = text.lines().map(|line| example(line).unwrap_or_else(|| line.to_owned()));
            let all = all.collect::<Vec<_>>().join("\n");
            for text in [&text, &all] {
                let file = std::env::temp_dir().join(format!("init-{}.toml", std::process::id()));
                std::fs::write(&file, text).unwrap();
                let source =
                    gateway::config::Source { file: Some(file.clone()), ..Default::default() };
                let config = gateway::config::load(&source).unwrap();
                std::fs::remove_file(file).unwrap();
                assert!(config.fleet.backends.len() >= servers.len(), "{text}");
            }
        }
    }
}
