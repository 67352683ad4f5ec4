//! The command line as a newcomer meets it: a first configuration, completions, manual pages,
//! suggestions.

use std::fs;
use std::process::{Command, Output};

use crate::support::tools::{run, tool};
use crate::support::{Engine, HttpRequest, Process, call, chat, fresh_file};

fn tidegate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
}

/// The message of a command that fails.
fn refusal(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    assert!(!status.success(), "{command:?}");
    String::from_utf8_lossy(&stderr).into_owned()
}

#[test]
fn x06_init_writes_a_configuration_for_the_servers_it_finds_and_overwrites_none() {
    let engine = Engine::start(&["--model", "m"]);
    let (port, file) = (engine.address().port(), fresh_file());
    let init = |ports: &str| {
        let mut command = tidegate();
        command.arg("init").arg(&file).args(["--ports", ports]);
        command
    };
    let said = run(&mut init(&format!("1,{port}")));
    assert!(said.contains(&format!("found     http://127.0.0.1:{port} (vllm)\n")), "{said}");
    let checked = run(tidegate().args(["check", "--json"]).arg(&file));
    assert!(checked.contains(&format!("vllm-{port}")), "{checked}");
    let written = fs::read_to_string(&file).unwrap();
    assert!(refusal(&mut init("1")).contains("is there already"));
    assert_eq!(fs::read_to_string(&file).unwrap(), written);
    let path = file.to_str().unwrap();
    let gateway = Process::start(&["serve", path, "--listen", "127.0.0.1:0"]);
    let ask =
        |request: &HttpRequest| call::Call::open(gateway.address(), &request.bytes()).finish();
    crate::support::eventually("served", || {
        let answer = ask(&chat("m").with("max_tokens", 2));
        if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
    });
}

#[test]
fn x06_without_a_server_init_still_writes_a_configuration_that_can_be_used() {
    let file = fresh_file();
    let said = run(tidegate().arg("init").arg(&file).args(["--ports", "1"]));
    assert!(said.contains("no model server"), "{said}");
    run(tidegate().arg("check").arg(&file));
}

/// Bash itself loads the script and completes.
#[test]
fn x06_shells_complete_commands_and_flags() {
    let complete = |words: &str, count: usize| {
        let script = format!(
            "source <(\"$0\" completions bash); COMP_WORDS=({words}); COMP_CWORD={count}; \
             _tidegate tidegate \"${{COMP_WORDS[{count}]}}\" \"${{COMP_WORDS[{count}-1]}}\"; \
             echo \"${{COMPREPLY[@]}}\""
        );
        run(tool("bash").args(["-c", &script, env!("CARGO_BIN_EXE_tidegate")]))
    };
    assert_eq!(complete("tidegate ser", 1).trim(), "serve");
    assert!(complete("tidegate serve --ba", 2).contains("--backend"));
    assert!(complete("tidegate batch ''", 2).contains("submit"));
    let zsh = run(tidegate().args(["completions", "zsh"]));
    assert!(zsh.starts_with("#compdef tidegate\n"), "{}", &zsh[..100]);
    let fish = run(tidegate().args(["completions", "fish"]));
    assert!(fish.contains("complete -c tidegate") && fish.contains("serve"));
}

#[test]
fn x06_every_command_has_a_manual_page() {
    let page = run(tidegate().arg("man"));
    assert!(page.contains(".TH tidegate 1") && page.contains("serve"), "{page}");
    let folder = fresh_file().with_file_name("man");
    run(tidegate().arg("man").arg("--out").arg(&folder));
    for name in ["tidegate", "tidegate-serve", "tidegate-batch-submit", "tidegate-init"] {
        let page = fs::read_to_string(folder.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{name}");
    }
}

#[test]
fn x06_a_misspelt_command_flag_or_key_gets_a_suggestion() {
    for (arguments, meant) in [
        (&["serv"][..], "serve"),
        (&["serve", "--bakend", "http://h:1"], "--backend"),
        (&["check", "--set", "queue.total_capacty=3"], "total_capacity"),
    ] {
        let said = refusal(tidegate().args(arguments));
        assert!(said.contains(meant), "{arguments:?}: {said}");
    }
}
