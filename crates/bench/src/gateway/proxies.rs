//! The proxies that are measured: the gateway in several configurations, the floor, and nginx.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};

use super::dialing::CertificateFiles;
use super::process::{Cores, Process, Ready, installed, run};

/// Connections that the peers keep to the backend.
const KEPT: usize = 256;
pub(super) const HAPROXY: &str = "HAProxy";

/// A proxy to start.
#[derive(Clone, Debug)]
pub(crate) enum Proxy {
    /// The gateway, with this configuration beside its one backend.
    /// `program` names another build of it.
    Ours { name: &'static str, config: String, program: Option<String> },
    /// Bare hyper, at most so many requests at the backend.
    Floor { limit: Option<usize> },
    /// nginx, at most so many requests at the backend.
    Nginx { limit: Option<usize> },
    /// nginx with TLS for clients.
    NginxTls { files: CertificateFiles },
    /// HAProxy, at most so many requests at the backend, perhaps with TLS for clients.
    Haproxy { limit: Option<usize>, tls: Option<CertificateFiles> },
}

/// Starts peers; their files are gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) cores: Cores,
    /// The `tidegate` program that is measured.
    pub(crate) tidegate: String,
    folder: PathBuf,
    started: usize,
}

// === impl Proxy ===

impl Proxy {
    pub(crate) fn ours(name: &'static str, config: String) -> Self {
        Self::Ours { name, config, program: None }
    }

    /// The proxies to compare with that are installed here.
    pub(crate) fn others(limit: Option<usize>) -> Vec<Self> {
        let nginx = has_nginx().then_some(Self::Nginx { limit });
        let haproxy = has_haproxy().then_some(Self::Haproxy { limit, tls: None });
        [Self::Floor { limit }].into_iter().chain(nginx).chain(haproxy).collect()
    }
}

/// Whether nginx can be measured beside us.
pub(crate) fn has_nginx() -> bool {
    installed("nginx").is_some()
}

/// Whether HAProxy can be measured beside us.
pub(crate) fn has_haproxy() -> bool {
    installed("haproxy").is_some()
}

// === impl Fixture ===

impl Fixture {
    pub(crate) fn new(cores: fn() -> Result<Cores>) -> Result<Self> {
        // A build may use all cores, so it comes before they are divided.
        let tidegate = tidegate()?;
        Self::of(tidegate, cores()?)
    }

    /// Starts this program on these cores.
    pub(crate) fn of(tidegate: String, cores: Cores) -> Result<Self> {
        static FIXTURES: AtomicUsize = AtomicUsize::new(0);
        let number = FIXTURES.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-bench-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self { cores, tidegate, folder, started: 0 })
    }

    /// The path of a new file.
    pub(crate) fn file(&mut self, ending: &str) -> PathBuf {
        self.started += 1;
        self.folder.join(format!("{}.{ending}", self.started))
    }

    /// What the peers have complained of.
    #[cfg(test)]
    pub(crate) fn logs(&self) -> String {
        let files = (1..=self.started).map(|at| self.folder.join(format!("{at}.log")));
        files.filter_map(|file| fs::read_to_string(file).ok()).collect()
    }

    /// Starts a peer in front of `backend`.
    pub(crate) async fn start(&mut self, peer: &Proxy, backend: SocketAddr) -> Result<Process> {
        let log = self.file("log");
        match peer {
            Proxy::Ours { name, config, program } => {
                let arguments = self.ours(config, backend)?;
                let mut command = self.cores.command(program.as_ref().unwrap_or(&self.tidegate));
                Process::start(name, command.args(arguments), &log, Ready::Says).await
            }
            Proxy::Floor { limit } => {
                let mut command = self.cores.command(&ourselves()?);
                command.args(floor(backend, *limit));
                Process::start("floor", &mut command, &log, Ready::Says).await
            }
            Proxy::Nginx { limit } => self.start_nginx(&log, (backend, *limit), None).await,
            Proxy::NginxTls { files } => self.start_nginx(&log, (backend, None), Some(files)).await,
            Proxy::Haproxy { limit, tls } => {
                self.start_haproxy(&log, (backend, *limit), tls.as_ref()).await
            }
        }
    }

    async fn start_nginx(
        &mut self,
        log: &Path,
        (backend, limit): (SocketAddr, Option<usize>),
        tls: Option<&CertificateFiles>,
    ) -> Result<Process> {
        let listen = free()?;
        let (name, text) = match tls {
            None => ("nginx", self.nginx(&format!("{listen} backlog=4096"), backend, limit)),
            Some(files) => ("nginx, TLS", self.nginx(&nginx_tls(listen, files), backend, limit)),
        };
        let config = self.file("conf");
        fs::write(&config, text)?;
        let mut command = self.cores.command(&installed("nginx").context("nginx is missing")?);
        command.arg("-e").arg("stderr").arg("-c").arg(config).arg("-p").arg(&self.folder);
        Process::start(name, &mut command, log, Ready::Listens(listen)).await
    }

    async fn start_haproxy(
        &mut self,
        log: &Path,
        (backend, limit): (SocketAddr, Option<usize>),
        tls: Option<&CertificateFiles>,
    ) -> Result<Process> {
        let listen = free()?;
        let (name, door) = match tls {
            None => (HAPROXY, String::new()),
            Some(files) => ("HAProxy, TLS", format!(" ssl crt {}", files.both.display())),
        };
        let config = self.file("cfg");
        fs::write(&config, haproxy(&format!("{listen}{door}"), backend, limit))?;
        let mut command = self.cores.command(&installed("haproxy").context("HAProxy is missing")?);
        command.arg("-db").arg("-f").arg(config);
        Process::start(name, &mut command, log, Ready::Listens(listen)).await
    }

    /// The arguments that start the gateway.
    pub(crate) fn ours(&mut self, config: &str, backend: SocketAddr) -> Result<Vec<String>> {
        let file = self.config(config, backend)?;
        let arguments = ["serve", "--config", &file, "--listen", "127.0.0.1:0"];
        Ok(arguments.map(str::to_owned).to_vec())
    }

    /// A file with this configuration before one backend.
    pub(crate) fn config(&mut self, config: &str, backend: SocketAddr) -> Result<String> {
        self.written(&format!(
            "{config}\n[[backends]]\nid = \"origin\"\nurl = \"http://{backend}\"\n\
             kind = \"generic\"\nmodels = [\"m\"]\n"
        ))
    }

    /// A file with this configuration.
    pub(crate) fn written(&mut self, config: &str) -> Result<String> {
        // The gateway watches the folder, and the others write their logs beside each other.
        let folder = self.file("folder");
        fs::create_dir(&folder)?;
        let file = folder.join("tidegate.toml");
        fs::write(&file, config)?;
        let file = file.to_str().context("the folder for temporary files has an odd name")?;
        Ok(file.to_owned())
    }

    fn nginx(&self, door: &str, backend: SocketAddr, limit: Option<usize>) -> String {
        let limit = limit.map(|limit| format!(" max_conns={limit}")).unwrap_or_default();
        let folder = self.folder.display();
        format!(
            "daemon off; master_process off; worker_processes 1;\n\
             pid {folder}/nginx.pid; error_log stderr crit;\n\
             events {{ worker_connections 16384; }}\n\
             http {{\n\
               access_log off; tcp_nodelay on; keepalive_requests 1000000000;\n\
               client_body_buffer_size 64k;\n\
               client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;\n\
               fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;\n\
               scgi_temp_path {folder}/scgi;\n\
               upstream origin {{\n\
                 server {backend}{limit} max_fails=0; keepalive {KEPT};\n\
                 keepalive_requests 1000000000;\n\
               }}\n\
               server {{\n\
                 listen {door};\n\
                 location / {{\n\
                   proxy_pass http://origin; proxy_http_version 1.1; proxy_buffering off;\n\
                   proxy_set_header Connection \"\"; proxy_read_timeout 600s;\n\
                 }}\n\
               }}\n\
             }}\n"
        )
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // Leftovers lie in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Where nginx listens with TLS, as its configuration writes it.
fn nginx_tls(listen: SocketAddr, files: &CertificateFiles) -> String {
    let (certificate, key) = (files.certificate.display(), files.key.display());
    format!(
        "{listen} ssl backlog=4096; ssl_protocols TLSv1.3;\n\
         ssl_certificate {certificate}; ssl_certificate_key {key}"
    )
}

/// One thread, kept connections to the backend, and no log, as the others. Without `http-no-delay`
/// HAProxy keeps the tokens of a stream for up to 200 ms, to send fewer packets.
fn haproxy(door: &str, backend: SocketAddr, limit: Option<usize>) -> String {
    let limit = limit.map(|limit| format!(" maxconn {limit}")).unwrap_or_default();
    format!(
        "global\n  nbthread 1\n  maxconn 8000\n  ssl-default-bind-options ssl-min-ver TLSv1.3\n\
         defaults\n  mode http\n  option http-no-delay\n\
         \x20 timeout connect 10s\n  timeout client 60s\n\
         \x20 timeout server 600s\n\
         \x20 http-reuse always\n\
         frontend clients\n  bind {door}\n  default_backend origin\n\
         backend origin\n  server origin {backend} pool-max-conn {KEPT}{limit}\n"
    )
}

/// The arguments that start the floor.
pub(crate) fn floor(backend: SocketAddr, limit: Option<usize>) -> Vec<String> {
    let mut arguments = vec!["floor-proxy".into(), "--backend".into(), backend.to_string()];
    if let Some(limit) = limit {
        arguments.extend(["--limit".into(), limit.to_string()]);
    }
    arguments
}

/// The `tidegate` program to measure: `TIDEGATE` names it, or it lies beside this one.
///
/// Under `cargo run` it is brought up to date first, so that a stale build is never measured.
fn tidegate() -> Result<String> {
    if let Ok(program) = std::env::var("TIDEGATE") {
        return Ok(program);
    }
    if let Ok(cargo) = std::env::var("CARGO") {
        let profile: &[&str] = if cfg!(debug_assertions) { &[] } else { &["--release"] };
        run(&cargo, &[&["build", "--quiet", "-p", "tidegate"], profile].concat())?;
    }
    let program = std::env::current_exe()?.with_file_name("tidegate");
    ensure!(program.exists(), "{} is missing: build it, or name it in TIDEGATE", program.display());
    program.into_os_string().into_string().ok().context("the program has an odd name")
}

/// This program, which is also the bare proxy.
pub(crate) fn ourselves() -> Result<String> {
    let program = std::env::current_exe()?.into_os_string();
    program.into_string().ok().context("this program has an odd name")
}

/// An address that is free.
pub(crate) fn free() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
