//! D10: the commands of `tidegate batch`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::backend::Seen;
use crate::support::process::Process;
use crate::support::{Backend, Call, HttpRequest, ScriptedResponse, eventually};

/// A folder for one test.
fn folder() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let place = place.join(format!("cli-{}-{number}", std::process::id()));
    fs::create_dir_all(&place).unwrap();
    place
}

/// A gateway whose batches are in this folder.
fn serve(folder: &Path, listen: &str) -> Process {
    let config = folder.join("tidegate.toml");
    fs::write(&config, "[batch]\nfolder = \"batches\"\n").unwrap();
    Process::start(&["serve", "--config", config.to_str().unwrap(), "--listen", listen])
}

fn requests(folder: &Path, count: usize) -> PathBuf {
    let line = |number: usize| {
        let body = json!({"model": "m", "prompt": "hello"});
        json!({"custom_id": format!("r{number}"), "method": "POST", "url": "/v1/completions",
            "body": body})
        .to_string()
            + "\n"
    };
    let path = folder.join("in.jsonl");
    fs::write(&path, (1..=count).map(line).collect::<String>()).unwrap();
    path
}

fn command(url: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("batch").args(words).args(["--url", url]).stdin(Stdio::null());
    command
}

/// Runs a command to its end; returns its exit code, standard output and standard error.
fn run(url: &str, words: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command(url, words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (status.code().unwrap(), text(&stdout), text(&stderr))
}

/// Starts a command, and waits until standard error has this text.
fn begin(url: &str, words: &[&str], until: &str) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut command = command(url, words);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(until) {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it never said {until:?}");
        assert!(!line.contains("of 0"), "the total is not known yet: {line}");
    }
    (child, said)
}

fn end(mut child: Child, mut said: BufReader<std::process::ChildStderr>) -> (i32, String) {
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    (child.wait().unwrap().code().unwrap(), rest)
}

/// A line of the errors file.
const BAD: &str = "{\"custom_id\":\"bad\",\"response\":{\"status_code\":400,\"body\":{\"error\":\
                   {\"message\":\"too long\"}}},\"error\":null}\n";

/// A Batch API whose batch ends with this status after a few requests.
fn fake(status: &'static str, failed: u64) -> Backend {
    let looks = Arc::new(Mutex::new(0));
    Backend::start(move |seen: &Seen| {
        let files = [("output_file_id", "file-out"), ("error_file_id", "file-err")];
        let mut batch = json!({"id": "batch_1", "object": "batch", "endpoint": "/v1/completions",
            "input_file_id": "file-in", "completion_window": "24h", "created_at": 1,
            "expires_at": 2, "status": "validating", "output_file_id": null,
            "error_file_id": null, "request_counts": {"total": 3, "completed": 0, "failed": 0}});
        match seen.path.as_str() {
            "/v1/files" => {
                let form = String::from_utf8_lossy(&seen.body).into_owned();
                assert!(form.contains("name=\"purpose\"\r\n\r\nbatch\r\n"), "{form}");
                assert!(form.contains("filename=\"in.jsonl\""), "{form}");
                ScriptedResponse::json(200, "{\"id\":\"file-in\"}")
            }
            "/v1/files/file-out/content" => {
                ScriptedResponse::json(200, "{\"custom_id\":\"good\"}\n")
            }
            "/v1/files/file-err/content" => ScriptedResponse::json(200, BAD),
            "/v1/batches" => {
                let wanted = seen.json();
                assert_eq!(wanted["metadata"], json!({"team": "a=b"}), "{wanted}");
                assert_eq!(wanted["endpoint"], "/v1/completions");
                assert_eq!(wanted["completion_window"], "30m");
                ScriptedResponse::json(200, &batch.to_string())
            }
            "/v1/batches/batch_1" => {
                let mut looks = looks.lock().unwrap();
                *looks += 1;
                if *looks == 2 {
                    // A proxy whose gateway restarts.
                    return ScriptedResponse::json(502, "<html>bad gateway</html>");
                }
                if *looks > 2 {
                    batch["status"] = status.into();
                    batch["request_counts"]["completed"] = (3 - failed).into();
                    batch["request_counts"]["failed"] = failed.into();
                    batch[files[0].0] = files[0].1.into();
                    batch[files[1].0] = (failed > 0).then_some(files[1].1).into();
                }
                ScriptedResponse::json(200, &batch.to_string())
            }
            other => ScriptedResponse::json(404, &json!({"error": {"message": other}}).to_string()),
        }
    })
}

#[test]
fn d10_a_batch_is_submitted_waited_for_and_fetched() {
    for (status, failed, expected) in [("completed", 0, 0), ("completed", 1, 3), ("expired", 2, 3)]
    {
        let (api, folder) = (fake(status, failed), folder());
        let file = requests(&folder, 3);
        let url = format!("http://{}/v1/", api.address());
        let words = ["submit", file.to_str().unwrap(), "--window", "30m", "--metadata", "team=a=b"];
        let (code, out, said) = run(&url, &[&words[..], &["--wait"]].concat());
        assert_eq!((code, out.as_str()), (expected, ""), "{said}");
        let output = fs::read_to_string(folder.join("in.jsonl.output.jsonl")).unwrap();
        assert_eq!(output, "{\"custom_id\":\"good\"}\n");
        let errors = fs::read_to_string(folder.join("in.jsonl.errors.jsonl"));
        assert_eq!(errors.is_ok(), failed > 0);
        assert!(said.contains(&format!("{status}: {} answered", 3 - failed)), "{said}");
        assert!(said.contains("\nresponses: "), "{said}");
        let common = "most frequent failure (1 of 1): status 400, for example: too long";
        assert_eq!(said.contains(common), failed > 0, "{said}");
        assert!(fs::read_dir(&folder).unwrap().count() <= 3, "no partial file is left");
    }
}

#[test]
fn d10_responses_can_go_to_standard_output() {
    let api = fake("completed", 1);
    let url = format!("http://{}", api.address());
    let (code, out, said) = run(&url, &["fetch", "batch_1", "--output", "-"]);
    assert_eq!((code, out.as_str()), (1, ""), "there is nothing yet");
    assert!(said.contains("has no responses yet"), "{said}");
    let (code, _, said) = run(&url, &["status", "batch_1"]);
    assert_eq!(code, 1, "a single command does not retry: {said}");
    let words = ["fetch", "batch_1", "--output", "-", "--errors", "-"];
    let (code, out, _) = run(&url, &words);
    assert_eq!((code, out), (3, format!("{{\"custom_id\":\"good\"}}\n{BAD}")));
}

#[test]
fn d10_input_errors_are_reported_before_the_upload() {
    let folder = folder();
    let file = folder.join("bad.jsonl");
    fs::write(&file, "{}\n\nnonsense\n").unwrap();
    let unreachable = "http://127.0.0.1:1";
    let (code, out, said) = run(unreachable, &["submit", file.to_str().unwrap()]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(said.contains("line 1: 'custom_id' is missing"), "{said}");
    assert!(said.contains("line 3: the line is not a JSON object"), "{said}");
    let file = requests(&folder, 1);
    let elsewhere = ["submit", file.to_str().unwrap(), "--endpoint", "/v1/embeddings"];
    let (code, _, said) = run(unreachable, &elsewhere);
    assert!(code == 1 && said.contains("line 1: 'url' is \"/v1/completions\""), "{said}");
    let (code, _, said) = run(unreachable, &["submit", file.to_str().unwrap()]);
    assert!(code == 1 && said.contains("cannot connect to 127.0.0.1:1"), "{said}");
    assert!(
        said.contains("is `tidegate serve --batch FOLDER` running there? set another"),
        "{said}"
    );
    let (code, _, said) = run(unreachable, &["submit", "/nowhere.jsonl"]);
    assert!(code == 1 && said.contains("/nowhere.jsonl"), "{said}");
    let (code, _, said) = run(unreachable, &["status", "../backends"]);
    assert!(code == 1 && said.contains("is not an id"), "{said}");
}

#[test]
fn d10_batches_are_listed_shown_and_cancelled() {
    let folder = folder();
    let gateway = serve(&folder, "127.0.0.1:0");
    let url = format!("http://{}", gateway.address());
    let (code, out, _) = run(&url, &["list"]);
    assert!(code == 0 && out.contains("no batches yet"), "{out}");
    let file = requests(&folder, 3);
    let (code, out, said) = run(&url, &["submit", file.to_str().unwrap()]);
    let id = out.trim();
    assert!(code == 0 && id.starts_with("batch_"), "{out}{said}");
    assert!(said.contains(&format!("tidegate batch status {id} --watch --url {url}")), "{said}");
    eventually("in progress", || {
        let (code, out, _) = run(&url, &["status", "--json"]);
        let batch: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &batch["id"]), (0, &json!(id)), "the newest one");
        if batch["status"] == "in_progress" { Ok(()) } else { Err(out) }
    });
    let (_, out, _) = run(&url, &["list"]);
    assert!(out.lines().nth(1).unwrap().contains("0/3"), "{out}");
    let (_, out, _) = run(&url, &["list", "--json"]);
    let page =
        Call::open(gateway.address(), &HttpRequest::get("/v1/batches").bytes()).finish().json();
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), page, "the gateway's JSON");
    let (_, out, _) = run(&url, &["status"]);
    assert!(out.contains("\nnow      gate gateway is closed"), "there is no backend: {out}");
    let (code, out, _) = run(&url, &["cancel", id]);
    assert!(code == 0 && out.contains("cancell"), "{out}");
    let (code, out, _) = run(&url, &["status", id, "--watch"]);
    assert!(code == 3 && out.contains("3: 0 answered, 3 failed or cancelled"), "{out}");
    assert!(out.contains(&format!("\nfetch    tidegate batch fetch {id} --url {url}\n")), "{out}");
    let wrong = ["submit", file.to_str().unwrap(), "--window", "1ms"];
    let (code, _, said) = run(&url, &wrong);
    assert!(code == 1 && said.contains("completion_window"), "{said}");
    let files = Call::open(gateway.address(), &HttpRequest::get("/v1/files?purpose=batch").bytes());
    let files = files.finish().json();
    assert_eq!(
        files["data"].as_array().unwrap().len(),
        1,
        "the file of a refused batch is deleted"
    );
}

#[test]
fn d10_waiting_continues_across_a_restart_of_the_gateway() {
    let folder = folder();
    let mut first = serve(&folder, "127.0.0.1:0");
    let (address, file) = (first.address().to_string(), requests(&folder, 3));
    let url = format!("http://{address}");
    let words = ["submit", file.to_str().unwrap(), "--wait"];
    let (child, mut said) = begin(&url, &words, "in_progress");
    first.kill();
    let mut line = String::new();
    while !line.contains("trying again") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it gave up");
    }
    let second = serve(&folder, &address);
    assert_eq!(second.address().to_string(), address);
    let (_, out, _) = run(&url, &["status", "--json"]);
    let batch: Value = serde_json::from_str(&out).unwrap();
    run(&url, &["cancel", batch["id"].as_str().unwrap()]);
    let (code, rest) = end(child, said);
    assert_eq!(code, 3, "{rest}");
    let errors = fs::read_to_string(folder.join("in.jsonl.errors.jsonl")).unwrap();
    assert_eq!(errors.lines().count(), 3, "{errors}");
}

#[test]
fn d10_ctrl_c_ends_the_wait_and_prints_how_to_continue() {
    let folder = folder();
    let gateway = serve(&folder, "127.0.0.1:0");
    let (url, file) = (format!("http://{}", gateway.address()), requests(&folder, 3));
    let words = ["submit", file.to_str().unwrap(), "--wait"];
    let (child, said) = begin(&url, &words, "in_progress");
    let id = child.id().to_string();
    assert!(Command::new("sh").args(["-c", "kill -INT $0", &id]).status().unwrap().success());
    let (code, rest) = end(child, said);
    assert!(code == 130 && rest.contains("the batch continues"), "{rest}");
    assert!(rest.contains("--watch") && rest.contains(&url), "{rest}");
    let (code, out, _) = run(&url, &["status"]);
    assert!(code == 0 && out.contains("in_progress"), "{out}");
}

#[test]
fn d10_output_paths_are_checked_before_the_upload() {
    let folder = folder();
    let file = requests(&folder, 1);
    let (input, unreachable) = (file.to_str().unwrap(), "http://127.0.0.1:1");
    let refused = |output: &Path, why: &str| {
        let words = ["submit", input, "--wait", "--output", output.to_str().unwrap()];
        let (code, _, said) = run(unreachable, &words);
        assert!(code == 1 && said.contains(why), "{}: {said}", output.display());
        assert!(!said.contains("cannot connect"), "{said}");
    };
    refused(&folder.join("none/answers.jsonl"), "does not exist");
    refused(&folder, "this is a folder");
    let link = folder.join("link.jsonl");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    refused(&link, "this is the input file");
    let old = folder.join("old.jsonl");
    fs::write(&old, "old").unwrap();
    refused(&old, "overwrite it with --force");
    refused(&folder.join("in.jsonl.errors.jsonl"), "--output and --errors are both");
    let output = old.to_str().unwrap();
    let words = ["submit", input, "--wait", "--force", "--output", output];
    let (_, _, said) = run(unreachable, &words);
    assert!(said.contains("cannot connect"), "the paths are accepted: {said}");
    let words = ["submit", input, "--wait", "--output", "/dev/null", "--errors", "-"];
    let (_, _, said) = run(unreachable, &words);
    assert!(said.contains("cannot connect"), "{said}");
    assert_eq!(
        fs::read_to_string(&old).unwrap(),
        "old",
        "the old file stays until the new one is complete"
    );
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3, "no partial file is left");
}

#[test]
fn d10_another_server_and_a_gateway_without_a_batch_api_have_different_errors() {
    let other = Backend::start(|_| ScriptedResponse::json(404, "{\"detail\":\"Not Found\"}"));
    let url = format!("http://{}", other.address());
    let (code, _, said) = run(&url, &["list"]);
    let asked = format!("{url}/v1/batches?limit=20 answered 404 Not Found: is it Tidegate");
    assert!(code == 1 && said.contains(&asked), "{said}");
    let mut explain = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let said = explain.args(["dispatch", "explain", "--url", &url]).output().unwrap().stderr;
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("/dispatch.txt answered 404 Not Found: is it a dispatcher"), "{said}");
    assert!(!said.contains("detail"), "{said}");
    let gateway = Process::start(&["serve", "--backend", &url, "--listen", "127.0.0.1:0"]);
    let (code, _, said) = run(&format!("http://{}", gateway.address()), &["list"]);
    assert!(code == 1 && said.contains("start with --batch FOLDER, or set batch.folder"), "{said}");
}

#[test]
fn d10_the_start_prints_the_batch_api() {
    let folder = folder();
    let words = ["listening on http://", "visibility on http://"];
    let config = folder.join("tidegate.toml");
    let text = "[admin]\nlisten = \"127.0.0.1:0\"\n[batch]\nfolder = \"b\"\n";
    fs::write(&config, text).unwrap();
    let arguments = ["serve", "--config", config.to_str().unwrap(), "--listen", "127.0.0.1:0"];
    let gateway = Process::start_saying(&arguments, &words);
    eventually("told", || {
        let told = gateway.access();
        let expected = format!("Batch API at /v1/batches, kept in {}", folder.join("b").display());
        if told.contains(&expected) { Ok(()) } else { Err(told) }
    });
}

/// A server whose responses contain control characters and foreign paths.
fn hostile(told: Value) -> Backend {
    Backend::start(move |seen: &Seen| match seen.path.split('?').next().unwrap() {
        "/dispatch.txt" => ScriptedResponse::json(200, "gate\tone\n\u{1b}[2Jtwo\n"),
        "/dispatch/dead" => {
            let dead_letter =
                json!({"number": 1, "id": "a\u{1b}[31m", "failures": 2, "why": "\u{9b}2J"});
            ScriptedResponse::json(200, &json!({"dead": [dead_letter], "next": null}).to_string())
        }
        "/dispatch/dead/redrive" => {
            let stays = json!({"id": "a\u{1b}[31m", "why": "b\rc"});
            ScriptedResponse::json(
                200,
                &json!({"messages": 0, "stay": 1, "why": [stays]}).to_string(),
            )
        }
        "/v1/files/file-out/content" | "/v1/files/file-err/content" => ScriptedResponse::json(
            200,
            &json!({"error": {"code": "\u{1b}c", "message": "\u{1b}]0;m"}}).to_string(),
        ),
        "/v1/batches/batch_1" => ScriptedResponse::json(200, &told.to_string()),
        "/v1/batches" => ScriptedResponse::json(200, &json!({ "data": [told] }).to_string()),
        _ => {
            let error = json!({"message": "\u{1b}[2J no", "code": "x_not_found"});
            ScriptedResponse::json(404, &json!({ "error": error }).to_string())
        }
    })
}

fn ended(id: &str) -> Value {
    json!({"id": id, "status": "completed", "endpoint": "/v1\u{1b}[1m", "created_at": 1,
        "input_file_id": "in\u{1b}[2m", "completion_window": "24h\u{1b}[3m", "expires_at": 2,
        "output_file_id": "file-out", "error_file_id": "file-err",
        "metadata": {"key\u{1b}[4m": "value\u{1b}[5m\u{202e}"},
        "errors": {"data": [{"message": "flaw\u{1b}[6m"}]},
        "request_counts": {"total": 2, "completed": 1, "failed": 1}})
}

#[test]
fn d10_existing_files_with_any_name_stay() {
    let (api, folder) = (fake("completed", 0), folder());
    let url = format!("http://{}", api.address());
    let (output, part) = (folder.join("answers.jsonl"), folder.join("answers.jsonl.part"));
    let input = folder.join("in.jsonl");
    requests(&folder, 1);
    std::os::unix::fs::symlink(&input, &part).unwrap();
    let before = fs::read_to_string(&input).unwrap();
    let paths = [&input, &output].map(|path| path.to_str().unwrap());
    let words = ["submit", paths[0], "--wait", "--output", paths[1], "--window", "30m"];
    let (code, _, said) = run(&url, &[&words[..], &["--metadata", "team=a=b"]].concat());
    assert_eq!(code, 0, "{said}");
    assert_eq!(fs::read_to_string(&output).unwrap(), "{\"custom_id\":\"good\"}\n");
    assert!(part.is_symlink(), "it is not ours");
    assert_eq!(fs::read_to_string(&input).unwrap(), before);
    fs::rename(&input, &part).unwrap();
    fs::remove_file(&output).unwrap();
    let words = ["submit", part.to_str().unwrap(), "--wait", "--output", paths[1]];
    let (code, _, said) = run("http://127.0.0.1:1", &words);
    assert!(code == 1 && said.contains("cannot connect"), "{said}");
    assert_eq!(fs::read_to_string(&part).unwrap(), before, "the input file is not overwritten");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no partial file is left");
}

#[test]
fn d10_one_file_by_two_names_is_still_one_file() {
    let folder = folder();
    requests(&folder, 1);
    fs::write(folder.join("old.jsonl"), "old").unwrap();
    std::os::unix::fs::symlink(&folder, folder.join("here")).unwrap();
    std::os::unix::fs::symlink("old.jsonl", folder.join("link.jsonl")).unwrap();
    let whole = folder.join("one.jsonl");
    let both = |output: &str, errors: &str, flags: &[&str]| {
        let words = ["submit", "in.jsonl", "--wait", "--output", output, "--errors", errors];
        let mut command = command("http://127.0.0.1:1", &[&words[..], flags].concat());
        let said = command.current_dir(&folder).output().unwrap().stderr;
        String::from_utf8(said).unwrap()
    };
    for errors in ["one.jsonl", "./one.jsonl", "here/one.jsonl", whole.to_str().unwrap()] {
        let said = both("one.jsonl", errors, &[]);
        assert!(said.contains("--output and --errors are both"), "{errors}: {said}");
    }
    let said = both("old.jsonl", "link.jsonl", &["--force"]);
    assert!(said.contains("--output and --errors are both"), "{said}");
    for (output, errors) in [("one.jsonl", "here/two.jsonl"), ("-", "-"), ("-", "./-")] {
        let said = both(output, errors, &[]);
        assert!(said.contains("cannot connect"), "{errors}: {said}");
    }
    let said = both("one.jsonl/", "two.jsonl", &[]);
    assert!(said.contains("this is a folder"), "{said}");
}

#[test]
fn d10_a_dangling_link_stays_without_force() {
    let folder = folder();
    let (input, link) = (requests(&folder, 1), folder.join("link.jsonl"));
    std::os::unix::fs::symlink("nothing", &link).unwrap();
    let [input, output] = [&input, &link].map(|path| path.to_str().unwrap());
    let words = ["submit", input, "--wait", "--output", output];
    let (code, _, said) = run("http://127.0.0.1:1", &words);
    assert!(code == 1 && said.contains("overwrite it with --force"), "{said}");
    let (_, _, said) = run("http://127.0.0.1:1", &[&words[..], &["--force"]].concat());
    assert!(said.contains("cannot connect"), "{said}");
}

#[test]
fn d10_the_server_cannot_choose_the_output_path() {
    let folder = folder();
    fs::create_dir(folder.join("sub")).unwrap();
    let elsewhere = folder.join("sub/evil");
    let api = hostile(ended(elsewhere.to_str().unwrap()));
    let mut fetch = command(&format!("http://{}", api.address()), &["fetch", "batch_1"]);
    let Output { status, stderr, .. } = fetch.current_dir(&folder).output().unwrap();
    assert_eq!(status.code(), Some(3), "{}", String::from_utf8_lossy(&stderr));
    assert!(folder.join("batch_1.output.jsonl").is_file());
    assert!(folder.join("batch_1.errors.jsonl").is_file());
    assert_eq!(fs::read_dir(folder.join("sub")).unwrap().count(), 0);
}

#[test]
fn d10_no_response_of_a_server_moves_the_cursor() {
    let folder = folder();
    let api = hostile(ended("batch_1\u{1b}[31m"));
    let url = format!("http://{}", api.address());
    let harmless = |words: &[&str], part: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let command = command.args(words).args(["--url", &url]).current_dir(&folder);
        let Output { stdout, stderr, .. } = command.output().unwrap();
        let said = String::from_utf8([stdout, stderr].concat()).unwrap();
        assert!(said.contains(part), "{words:?}: {said}");
        let bad = |letter: char| letter.is_control() && !"\n\t".contains(letter);
        assert!(!said.contains(bad) && !said.contains('\u{202e}'), "{words:?}: {said:?}");
    };
    harmless(&["batch", "status", "batch_1"], "flaw");
    harmless(&["batch", "list"], "batch_1");
    harmless(&["batch", "status", "batch_2"], "[2J no");
    harmless(&["batch", "fetch", "batch_1"], "(1 of 1)");
    harmless(&["dispatch", "explain"], "gate\tone\n");
    harmless(&["dispatch", "dead", "list", "--queue", "q"], "a [31m");
    harmless(&["dispatch", "dead", "redrive", "--queue", "q", "--all"], "b c");
    let (_, out, _) = run(&url, &["status", "batch_1", "--json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told, ended("batch_1\u{1b}[31m"), "--json prints the response unchanged");
    let file = folder.join("bad.jsonl");
    let line = json!({"custom_id": "a", "method": "POST", "url": "/v1/\u{9b}", "body": {}});
    fs::write(&file, line.to_string()).unwrap();
    harmless(&["batch", "submit", file.to_str().unwrap()], "line 1");
}
