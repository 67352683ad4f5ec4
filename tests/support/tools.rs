//! External programs. `tools/setup.sh` installs them; `make test` runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// An installed program.
pub(crate) fn tool(name: &str) -> Command {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|folder| folder.join(name).exists());
    assert!(found, "{name} is not installed: run tools/setup.sh");
    Command::new(name)
}

/// A client script, in Python with the packages of `tests/clients/requirements.txt`.
pub(crate) fn python(script: &str) -> Command {
    python_file(&client(script))
}

/// A script of `tools`, in the same Python.
pub(crate) fn python_tool(script: &str) -> Command {
    python_file(&root().join("tools").join(script))
}

/// A script in that Python.
pub(crate) fn python_file(script: &Path) -> Command {
    let python = root().join(".tools/python/bin/python");
    assert!(python.exists(), "{} is not there: run tools/setup.sh", python.display());
    let mut command = Command::new(python);
    command.arg("-u").arg(script);
    // Proxy settings of the machine must not redirect a client.
    for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(name);
    }
    command
}

/// Says that a check is left out because its input is not here. CI has every input.
pub(crate) fn leave_out(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}");
    eprintln!("not checked: {why}");
}

/// A client script.
pub(crate) fn client(name: &str) -> PathBuf {
    root().join("tests/clients").join(name)
}

/// Runs a command, which must succeed, and returns its output.
pub(crate) fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}
