//! The processes that are measured: started on a core of their own, read from outside, ended.
//!
//! Processor time is read from the kernel's scheduler in nanoseconds, since its clock ticks are
//! ten milliseconds long.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use tokio::time::Instant;

/// What every measured process may open: ten thousand clients, and some.
const FILES: usize = 16_384;
const READY_WITHIN: Duration = Duration::from_secs(60);
const READY_EVERY: Duration = Duration::from_millis(10);

/// Which cores to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cores {
    /// Load and origin on the first, the proxy on the second.
    Apart,
    /// There is only one, or everybody may use all.
    Shared,
}

/// How a process tells that it is ready.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ready {
    /// It says where it listens.
    Says,
    /// It listens there before long.
    Listens(SocketAddr),
}

/// A proxy that runs; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    child: Child,
    /// What it complains of, and what it says.
    log: PathBuf,
    output: PathBuf,
}

// === impl Cores ===

impl Cores {
    /// Moves this process to the first core, if there is a second one for the others.
    pub(crate) fn divide() -> Result<Self> {
        Self::share()?;
        let me = std::process::id().to_string();
        if std::thread::available_parallelism()?.get() < 2 {
            return Ok(Self::Shared);
        }
        run("taskset", &["-a", "-c", "-p", "0", &me])?;
        Ok(Self::Apart)
    }

    /// Leaves all cores to everybody.
    pub(crate) fn share() -> Result<Self> {
        let me = std::process::id().to_string();
        let files = format!("--nofile={FILES}:");
        run("prlimit", &["--pid", &me, &files]).with_context(|| {
            format!("cannot open {FILES} connections; raise the hard limit (ulimit -Hn)")
        })?;
        Ok(Self::Shared)
    }

    /// A command that runs `program` on the proxy's core.
    pub(crate) fn command(self, program: &str) -> Command {
        match self {
            Self::Apart => {
                let mut command = Command::new("taskset");
                command.args(["-c", "1", program]);
                command
            }
            Self::Shared => Command::new(program),
        }
    }
}

/// Runs a small tool of the system to its end.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<()> {
    tool(Command::new(program).args(arguments))
}

/// Runs a command to its end.
pub(crate) fn tool(command: &mut Command) -> Result<()> {
    let output = command.output();
    let program = command.get_program().to_string_lossy();
    let output = output.with_context(|| {
        format!("cannot run {program}; Debian has the system's tools in the package util-linux")
    })?;
    if !output.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// The path of a program, if it is installed.
pub(crate) fn installed(program: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps servers where a user's path does not lead.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let mut files = folders.map(|folder| folder.join(program));
    files.find(|file| file.is_file())?.into_os_string().into_string().ok()
}

// === impl Process ===

impl Process {
    /// Starts a process and waits until it is ready.
    pub(crate) async fn start(
        name: &'static str,
        command: &mut Command,
        log: &Path,
        ready: Ready,
    ) -> Result<Self> {
        let output = log.with_extension("out");
        command.stdin(Stdio::null()).stdout(File::create(&output)?).stderr(File::create(log)?);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut process = Self { name, address, child, log: log.to_owned(), output };
        process.address = process.ready(ready).await?;
        Ok(process)
    }

    async fn ready(&mut self, how: Ready) -> Result<SocketAddr> {
        let began = Instant::now();
        loop {
            let found = match how {
                Ready::Says => listening(&fs::read_to_string(&self.output)?)?,
                Ready::Listens(at) => TcpStream::connect(at).ok().map(|_| at),
            };
            if let Some(address) = found {
                return Ok(address);
            }
            if self.child.try_wait()?.is_some() || began.elapsed() > READY_WITHIN {
                return Err(self.failure());
            }
            tokio::time::sleep(READY_EVERY).await;
        }
    }

    fn failure(&self) -> anyhow::Error {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        anyhow!("{} did not start: {}", self.name, said.trim())
    }

    /// The processor time of all its threads.
    pub(crate) fn cpu_nanos(&self) -> Result<u64> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id()))
            .with_context(|| format!("{} has ended", self.name))?;
        let mut nanos = 0;
        for task in tasks {
            let file = task?.path().join("schedstat");
            // A thread that has just ended has no file any more.
            let Ok(text) = fs::read_to_string(&file) else { continue };
            nanos += field(&text, 0).with_context(|| format!("{}: {text}", file.display()))?;
        }
        Ok(nanos)
    }

    /// The memory it has in use, in megabytes.
    pub(crate) fn resident_megabytes(&self) -> Result<f64> {
        self.megabytes("VmRSS:")
    }

    /// The most memory it ever had in use, in megabytes.
    pub(crate) fn peak_megabytes(&self) -> Result<f64> {
        self.megabytes("VmHWM:")
    }

    fn megabytes(&self, which: &'static str) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .with_context(|| format!("{} has ended", self.name))?;
        let line = status.lines().find_map(|line| line.strip_prefix(which));
        let kilobytes = line.and_then(|line| field(line, 0)).context(which)?;
        Ok(kilobytes as f64 / 1024.0)
    }

    /// How many files and connections it has open.
    pub(crate) fn open_files(&self) -> Result<usize> {
        let folder = format!("/proc/{}/fd", self.child.id());
        Ok(fs::read_dir(folder).with_context(|| format!("{} has ended", self.name))?.count())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal, such as `HUP`.
    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        run("kill", &[&format!("-{name}"), &self.child.id().to_string()])
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn end(mut self) -> Result<()> {
        self.signal("TERM")?;
        // The floor ends by the signal itself, the gateway in its own time.
        self.child.wait()?;
        Ok(())
    }

    /// The same, while this thread goes on: the process may have something to send to it yet.
    #[cfg(test)]
    pub(crate) async fn end_beside(self) -> Result<()> {
        tokio::task::spawn_blocking(|| self.end()).await?
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Already ended is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a process that says so listens.
fn listening(output: &str) -> Result<Option<SocketAddr>> {
    let Some((_, rest)) = output.split_once("listening on ") else { return Ok(None) };
    // The line may not be whole yet.
    let Some((address, _)) = rest.split_once('\n') else { return Ok(None) };
    let (_, address) = address.split_once("://").with_context(|| address.to_owned())?;
    Ok(Some(address.trim().parse().with_context(|| address.to_owned())?))
}

fn field(text: &str, at: usize) -> Option<u64> {
    text.split_whitespace().nth(at)?.parse().ok()
}
