//! X05: what one tenant can see of another one, and what needs the key of an operator.

use serde_json::{Value, json};

use crate::support::gateway::config;
use crate::support::keys::Keys;
use crate::support::{
    Backend, Gateway, HttpRequest, ScriptedResponse, chat, eventually, fresh_file,
};

/// Two tenants and a Batch API, whose gate is open.
const TENANTS: &str = "[[tenants]]\nname = \"alpha\"\n[[tenants]]\nname = \"beta\"\n\
    [batch]\nfolder = \"batches\"\n\
    [[dispatch.queues]]\nname = \"batch\"\ngates = [\"open\"]\n\
    [[dispatch.gates]]\nname = \"open\"\nkind = \"constant\"\ncapacity = 100\n";

/// A form with a file of so many requests.
pub(super) fn upload(key: &str, requests: usize) -> HttpRequest {
    let body = json!({"model": "m", "mark": "line", "messages": []});
    let url = "/v1/chat/completions";
    let line = |at: usize| {
        json!({"custom_id": at.to_string(), "method": "POST", "url": url, "body": body}).to_string()
    };
    let line = (0..requests).map(line).collect::<Vec<_>>().join("\n");
    let form = format!(
        "--XYZ\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--XYZ\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"in\"\r\n\r\n{line}\r\n\
         --XYZ--\r\n"
    );
    let mut upload = HttpRequest::post("/v1/files", form);
    upload.headers = vec![("content-type".into(), "multipart/form-data; boundary=XYZ".into())];
    upload.key(key)
}

fn ids(list: &Value) -> Vec<String> {
    let data = list["data"].as_array().unwrap();
    data.iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn x05_a_tenant_sees_reads_and_cancels_its_own_files_and_batches_alone() {
    let (keys, backend) = (Keys::new(), Backend::held());
    let (ours, theirs) = (keys.tenant("alpha", "a"), keys.tenant("beta", "b"));
    let admin = format!("{}[admin]\nwithout_key = \"all\"\n", keys.section());
    let text = config(&format!("{TENANTS}{admin}"), &[("one", backend.address())]);
    let gateway = Gateway::start(&text);
    let get = |path: &str, key: &str| gateway.ask(&HttpRequest::get(path).key(key));
    let file = gateway.ask(&upload(&ours, 1)).json()["id"].as_str().unwrap().to_owned();
    let wanted = json!({"input_file_id": file, "endpoint": "/v1/chat/completions",
        "completion_window": "24h"})
    .to_string();
    let create = HttpRequest::post("/v1/batches", wanted);
    assert_eq!(gateway.ask(&create.clone().key(&theirs)).status, 400, "the file of another one");
    let batch = gateway.ask(&create.key(&ours)).json()["id"].as_str().unwrap().to_owned();
    // A request of the batch belongs to the tenant, without any key of a client.
    backend.await_running(1);
    assert_eq!(backend.seen()[0].header("authorization"), None);
    assert_eq!(backend.seen()[0].header("x-gateway-dispatch-key"), None);
    let flows = gateway.get("/flows").json();
    let named = |name: &str| flows["flows"].as_array().unwrap().iter().any(|it| it["name"] == name);
    assert!(named("alpha") && !named("-"), "{flows}");

    for path in [format!("/v1/files/{file}"), format!("/v1/files/{file}/content")] {
        assert_eq!((get(&path, &theirs).status, get(&path, &ours).status), (404, 200), "{path}");
    }
    let path = format!("/v1/batches/{batch}");
    assert_eq!((get(&path, &theirs).status, get(&path, &ours).status), (404, 200));
    let cancel = HttpRequest::post(&format!("{path}/cancel"), "");
    assert_eq!(gateway.ask(&cancel.clone().key(&theirs)).code(), "batch_not_found");
    let mut delete = HttpRequest::get(&format!("/v1/files/{file}")).key(&theirs);
    delete.method = "DELETE".into();
    assert_eq!(gateway.ask(&delete).code(), "file_not_found");
    for path in ["/v1/files", "/v1/batches"] {
        assert_eq!(ids(&get(path, &theirs).json()), Vec::<String>::new(), "{path}");
        assert_eq!(ids(&get(path, &ours).json()).len(), 1, "{path}");
    }
    backend.open();
    let output = eventually("completed", || {
        let batch = get(&path, &ours).json();
        let output = batch["output_file_id"].as_str().map(str::to_owned);
        output.ok_or_else(|| batch.to_string())
    });
    let content = format!("/v1/files/{output}/content");
    assert_eq!((get(&content, &theirs).status, get(&content, &ours).status), (404, 200));
    assert_eq!(gateway.ask(&cancel.key(&ours)).code(), "batch_ended");
}

/// The batch of a tenant with these settings after its end: three requests that use 13 tokens each,
/// one at a time. The responses have a look-alike of their usage.
fn batch_under(settings: &str) -> (Value, String) {
    let usage = "{\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":2,\"total_tokens\":13},
        \"tools\":[{\"usage\":{\"cached_tokens\":1000000}}]}";
    let (keys, backend) = (Keys::new(), Backend::start(|_| ScriptedResponse::json(200, usage)));
    let key = keys.tenant("alpha", "a");
    let tenants = TENANTS.replace("name = \"alpha\"\n", &format!("name = \"alpha\"\n{settings}"));
    let one = tenants.replace("capacity = 100", "capacity = 1");
    let sections = format!("{one}{}[admin]\nwithout_key = \"all\"\n", keys.section());
    let gateway = Gateway::start(&config(&sections, &[("one", backend.address())]));
    let file = gateway.ask(&upload(&key, 3)).json()["id"].clone();
    let wanted = json!({"input_file_id": file, "endpoint": "/v1/chat/completions",
        "completion_window": "24h"});
    let create = HttpRequest::post("/v1/batches", wanted.to_string());
    let batch = gateway.ask(&create.key(&key)).json()["id"].as_str().unwrap().to_owned();
    let get = |path: &str| gateway.ask(&HttpRequest::get(path).key(&key));
    let ended = eventually("ended", || {
        let batch = get(&format!("/v1/batches/{batch}")).json();
        if batch["status"] == "completed" { Ok(batch) } else { Err(batch.to_string()) }
    });
    let errors = ended["error_file_id"].as_str().map(|id| get(&format!("/v1/files/{id}/content")));
    (ended["request_counts"].clone(), errors.map(|file| file.text()).unwrap_or_default())
}

/// A batch that was refused minute by minute would look like an overload and delay all batches.
#[test]
fn x05_d10_limits_of_a_minute_are_not_for_batches() {
    let (counts, errors) = batch_under("requests_per_minute = 1\ntokens_per_minute = 1\n");
    assert_eq!(counts, json!({"total": 3, "completed": 3, "failed": 0}), "{errors}");
}

#[test]
fn x05_d10_a_batch_ends_with_the_quota_of_its_tenant() {
    let (counts, errors) = batch_under("tokens_per_day = 10\non_quota = \"refuse\"\n");
    assert_eq!(counts, json!({"total": 3, "completed": 1, "failed": 2}), "{errors}");
    assert_eq!(errors.matches("\"code\":\"insufficient_quota\"").count(), 2, "{errors}");
}

#[test]
fn x05_status_pages_need_a_key_and_reading_and_changing_are_two_rights() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let tenant = keys.tenant("alpha", "a");
    let read = keys.make(&["--admin", "read", "--name", "grafana"]);
    let change = keys.make(&["--admin", "change", "--name", "operator"]);
    let text = config(&format!("{TENANTS}{}", keys.section()), &[("one", backend.address())]);
    let gateway = Gateway::launch(&text);
    let status = |ask: HttpRequest, key: Option<&str>| {
        gateway.ask(&key.map_or_else(|| ask.clone(), |key| ask.clone().key(key))).status
    };
    for page in ["/health", "/ready", "/version"] {
        assert_ne!(status(HttpRequest::get(page), None), 401, "{page}");
    }
    let pages = ["/metrics", "/flows", "/backends", "/workloads", "/dispatch", "/dispatch.txt"];
    for page in pages {
        let page = HttpRequest::get(page);
        let given = [None, Some("wrong"), Some(&*tenant), Some(&*read), Some(&*change)];
        let statuses = given.map(|key| status(page.clone(), key));
        assert_eq!(statuses, [401, 401, 403, 200, 200], "{}", page.path);
    }
    for path in ["/dispatch/dead/purge", "/dispatch/dead/redrive"] {
        let call = HttpRequest::post(path, "{\"queue\": \"batch\", \"ids\": []}");
        let given = [None, Some(&*tenant), Some(&*read)].map(|key| status(call.clone(), key));
        assert_eq!(given, [401, 403, 403], "{path}");
        assert!(![401, 403].contains(&status(call, Some(&change))), "{path}");
    }
    assert_eq!(status(chat("m"), Some(&change)), 401, "an admin key is no key of a tenant");
    // The metrics may be open by choice; changes never are.
    let open = text.replace("[auth]", "[admin]\nwithout_key = \"metrics\"\n[auth]");
    gateway.rewrite(&open);
    eventually("opened", || match status(HttpRequest::get("/metrics"), None) {
        200 => Ok(()),
        other => Err(other.to_string()),
    });
    assert_eq!(status(HttpRequest::get("/flows"), None), 401);
    gateway.rewrite(&open.replace("\"metrics\"", "\"all\""));
    eventually("opened", || match status(HttpRequest::get("/flows"), None) {
        200 => Ok(()),
        other => Err(other.to_string()),
    });
    let purge = HttpRequest::post("/dispatch/dead/purge", "{\"queue\": \"batch\"}");
    assert_eq!(status(purge, None), 401);
}

#[test]
fn x05_status_pages_that_other_machines_reach_need_a_decision() {
    let keys = Keys::new();
    let file = fresh_file();
    let check = |sections: &str| {
        std::fs::write(&file, format!("{sections}{}", keys.section())).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let output = command.arg("check").arg(&file).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let wide = "[admin]\nlisten = \"0.0.0.0:8431\"\n";
    let (good, said) = check(wide);
    assert!(!good && said.contains("admin.listen is 0.0.0.0:8431, which other machines reach"));
    assert!(check("[admin]\nlisten = \"127.0.0.1:8431\"\n").0);
    assert!(check(&format!("{wide}without_key = \"metrics\"\n")).0);
    let (good, said) = check(&format!("{wide}read_certificates = [\"grafana\"]\n"));
    assert!(!good && said.contains("read_certificates needs client_ca_file"), "{said}");
    keys.make(&["--admin", "read", "--name", "grafana"]);
    let (good, said) = check(wide);
    assert!(good, "{said}");
}
