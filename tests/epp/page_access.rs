//! Who may see the pages of a picker that has taken the place of the existing one: its metrics are
//! protected by the roles of the cluster (`--metrics-endpoint-auth`).

use std::net::SocketAddr;

use crate::support::api_server::{ApiServer, pod, pool};
use crate::support::call::Response;
use crate::support::own_address::own_address;
use crate::support::{Backend, Call, HttpRequest, Process, eventually};

const DRAIN: &str = "/backends/pod-0/drain";

/// A picker with the command line of the existing one, for a pool with one pod.
fn picker(api: &ApiServer, flags: &[&str]) -> Process {
    let url = format!("discovery.kubernetes.url=http://{}", api.address());
    let arguments = [
        "--pool-name=llama",
        "--pool-namespace=models",
        "--grpc-port=0",
        "--grpc-health-port=0",
        "--metrics-port=0",
        "--secure-serving=false",
        "--set",
        &url,
    ];
    let words = ["listening on grpc://", "health on grpc://", "metrics on http://"];
    Process::start_saying(&[&arguments, flags].concat(), &words)
}

fn cluster(server: &Backend) -> ApiServer {
    let api = ApiServer::start();
    api.put("pods", pod("pod-0", server.address()));
    api.put("inferencepools", pool("llama", &[server.address().port()]));
    api
}

/// The pages by a loopback address.
fn at_home(picker: &Process) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], picker.addresses()[2].port()))
}

fn ask(at: SocketAddr, request: &HttpRequest) -> Response {
    Call::open(at, &request.bytes()).finish()
}

fn get(at: SocketAddr, path: &str, token: &str) -> u16 {
    ask(at, &HttpRequest::get(path).key(token)).status
}

#[test]
fn x02_x05_the_roles_of_the_cluster_protect_the_pages_as_those_of_the_existing_picker() {
    let server = Backend::quick();
    let api = cluster(&server);
    api.add_reader("of-prometheus", "prometheus", &["get /metrics"]);
    api.add_reader("of-operator", "operator", &["get /backends", &format!("post {DRAIN}")]);
    for flags in [&[][..], &["--metrics-endpoint-auth"], &["--metrics-endpoint-auth=true"]] {
        let picker = picker(&api, flags);
        for at in [at_home(&picker), SocketAddr::new(own_address(), at_home(&picker).port())] {
            assert_eq!(ask(at, &HttpRequest::get("/metrics")).status, 401, "no token");
            assert_eq!(get(at, "/metrics", "forged"), 401);
            assert_eq!(get(at, "/metrics", "of-prometheus"), 200);
            assert_eq!(get(at, "/backends", "of-prometheus"), 403);
            assert_eq!(get(at, "/metrics", "of-operator"), 403);
            let drain = HttpRequest::post(DRAIN, "");
            assert_eq!(ask(at, &drain).status, 401);
            assert_eq!(ask(at, &drain.clone().key("of-prometheus")).status, 403);
            eventually("the pod is known", || match get(at, "/backends", "of-operator") {
                200 if ask(at, &drain.clone().key("of-operator")).status == 200 => Ok(()),
                status => Err(status.to_string()),
            });
            // The probes need no token.
            assert_eq!(ask(at, &HttpRequest::get("/health")).status, 200);
        }
        let reviews = api.seen("create /apis/authentication.k8s.io/v1/tokenreviews").len();
        assert_eq!(get(at_home(&picker), "/metrics", "of-prometheus"), 200);
        let again = api.seen("create /apis/authentication.k8s.io/v1/tokenreviews").len();
        assert_eq!(again, reviews, "a verdict is kept for a while");
        assert!(!picker.log().contains("of-prometheus"), "no token is logged");
    }
}

/// A token is reviewed before a website is: the browser of an operator may use any name.
#[test]
fn x02_x05_a_token_counts_in_a_browser_under_a_name() {
    let server = Backend::quick();
    let api = cluster(&server);
    api.add_reader("of-prometheus", "prometheus", &["get /metrics"]);
    let picker = picker(&api, &[]);
    let browser = |path: &str, token: &str| {
        let page = HttpRequest::get(path).header("accept-language", "de");
        let page = if token.is_empty() { page } else { page.key(token) };
        let head = String::from_utf8(page.bytes()).unwrap();
        let named = head.replace("host: tidegate", "host: gateway.example:9090");
        Call::open(at_home(&picker), named.as_bytes()).finish().status
    };
    assert_eq!(browser("/metrics", "of-prometheus"), 200);
    assert_eq!(browser("/backends", "of-prometheus"), 403, "its role decides");
    assert_eq!(browser("/metrics", "forged"), 401);
    assert_eq!(browser("/metrics", ""), 403, "host_not_allowed");
}

/// Anybody can send tokens. Those of one address have all places, and more of them wait; the first
/// review of another address comes at its turn.
#[test]
fn x05_a_flood_of_forged_tokens_leaves_a_turn_to_another_address() {
    let server = Backend::quick();
    let api = cluster(&server);
    api.add_reader("of-prometheus", "prometheus", &["get /metrics"]);
    api.answer_forged(0);
    let picker = picker(&api, &[]);
    let (home, afar) = (at_home(&picker), own_address());
    assert!(!afar.is_loopback(), "{afar}");
    let afar = SocketAddr::new(afar, home.port());
    let forged = |number: usize| HttpRequest::get("/metrics").key(&format!("forged-{number}"));
    let flood: Vec<Call> = (0..40).map(|at| Call::open(afar, &forged(at).bytes())).collect();
    eventually("all places are taken, and the rest refused", || {
        let reviews = api.seen("create /apis/authentication.k8s.io/v1/tokenreviews").len();
        let refused = flood.iter().filter(|call| call.has_begun()).count();
        match (reviews, refused) {
            (8, 24..=32) => Ok(()),
            counts => Err(format!("{counts:?}")),
        }
    });
    let honest = HttpRequest::get("/metrics").key("of-prometheus");
    let mut honest = Call::open(home, &honest.bytes());
    // One of the other address may be before it.
    api.answer_forged(2);
    assert_eq!(honest.head().status, 200);
    api.answer_forged(100);
    assert!(flood.into_iter().all(|call| [401, 503].contains(&call.finish().status)));
}

#[test]
fn x02_x05_without_the_right_to_review_tokens_the_pages_stay_closed() {
    let server = Backend::quick();
    let api = cluster(&server);
    api.add_reader("of-prometheus", "prometheus", &["get /metrics"]);
    api.forbid("create", "tokenreviews");
    let picker = picker(&api, &[]);
    let metrics = HttpRequest::get("/metrics").key("of-prometheus");
    let refused = ask(at_home(&picker), &metrics);
    refused.refused(503, "review_unavailable");
    let why = "the service account may not create tokenreviews: its role lacks the verb create";
    assert!(refused.text().contains(why), "{}", refused.text());
    picker.await_log(why, 1);
    // The right that is given later counts at once.
    api.allow_all();
    assert_eq!(ask(at_home(&picker), &metrics).status, 200);
}

#[test]
fn x02_x05_the_metrics_are_open_where_the_flag_says_so_and_changes_are_not() {
    let server = Backend::quick();
    let api = cluster(&server);
    let picker = picker(&api, &["--metrics-endpoint-auth=false"]);
    let afar = SocketAddr::new(own_address(), at_home(&picker).port());
    assert_eq!(ask(afar, &HttpRequest::get("/metrics")).status, 200);
    let refused = ask(afar, &HttpRequest::post(DRAIN, ""));
    assert_eq!((refused.status, refused.code().as_str()), (403, "change_needs_key"));
    eventually("drained from this machine", || {
        match ask(at_home(&picker), &HttpRequest::post(DRAIN, "")) {
            drained if drained.status == 200 => Ok(()),
            refused => Err(refused.text()),
        }
    });
    assert!(api.seen("tokenreviews").is_empty());
}
