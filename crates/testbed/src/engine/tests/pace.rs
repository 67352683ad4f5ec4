//! How long things take, in virtual time, and how many run at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::machine::{Machine, Work};
use super::super::{Engine, Pace, Settings, TokenPace};
use super::{chat, chat_body, fast, get, read, send, start, until};

fn machine(pace: Pace) -> Arc<Machine> {
    let settings = Settings { pace, ..Settings::default() };
    let machine = Arc::new(Machine::new(settings.rules().unwrap()));
    let driven = machine.clone();
    tokio::spawn(async move { driven.drive().await });
    machine
}

fn work(prompt: u32, output: u32) -> Work {
    Work { prompt, output, prefix: [].into() }
}

/// When each token came, in milliseconds.
async fn moments(machine: &Arc<Machine>, work: Work) -> Vec<u128> {
    let began = Instant::now();
    let output = work.output;
    let mut job = machine.enter(work).unwrap();
    let mut moments = Vec::new();
    while (moments.len() as u32) < output {
        let there = job.beyond(moments.len() as u32).await.unwrap();
        moments.resize(there as usize, began.elapsed().as_millis());
    }
    moments
}

fn tokens(max_num_seqs: u32) -> Pace {
    let (first_token, between) = (Duration::from_millis(150), Duration::from_millis(25));
    Pace::Tokens(TokenPace { first_token, between, max_num_seqs, ..TokenPace::default() })
}

#[tokio::test(start_paused = true)]
async fn the_first_token_takes_its_time_and_the_others_theirs() {
    let machine = machine(tokens(2));
    assert_eq!(moments(&machine, work(40, 4)).await, [150, 175, 200, 225]);
    let both = tokio::join!(moments(&machine, work(1, 2)), moments(&machine, work(900, 2)));
    // The second one comes while a step is running and joins the next.
    assert_eq!(both, (vec![150, 175], vec![175, 200]));
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_limit_wait_in_the_engine() {
    let machine = machine(tokens(1));
    let (first, second) =
        tokio::join!(moments(&machine, work(1, 2)), moments(&machine, work(1, 1)));
    assert_eq!((first, second), (vec![150, 175], vec![325]));
    assert_eq!(machine.state().running_max, 1);
}

#[tokio::test(start_paused = true)]
async fn a_service_time_is_the_same_for_all() {
    let machine = machine(Pace::Service { time: Duration::from_millis(200), at_once: 2 });
    let long = moments(&machine, work(100_000, 3));
    let all = tokio::join!(long, moments(&machine, work(1, 1)), moments(&machine, work(1, 1)));
    assert_eq!(all, (vec![200; 3], vec![200], vec![400]));
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_client_left_frees_its_place() {
    let machine = machine(tokens(1));
    let long = machine.enter(work(1, 1000)).unwrap();
    let next = moments(&machine, work(1, 1));
    tokio::pin!(next);
    let early = tokio::time::timeout(Duration::from_secs(10), &mut next).await;
    assert!(early.is_err(), "the long one is in its way");
    drop(long);
    assert_eq!(next.await, [10_175], "the step that has begun is still made");
    assert_eq!(machine.state().reading.running, 0);
    assert_eq!(machine.state().busy.as_millis(), 10_175);
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_runs_out_throws_sequences_back() {
    let small = TokenPace { kv_blocks: 8, block_size: 16, ..TokenPace::default() };
    let machine = machine(Pace::Tokens(small));
    let long = || moments(&machine, work(16, 80));
    let (a, b) = tokio::join!(long(), long());
    assert!(machine.state().reading.preemptions > 0);
    assert_eq!((a.len(), b.len()), (80, 80), "both come to their end");
    assert!(machine.enter(work(200, 1)).is_err(), "more than the cache holds");
}

#[tokio::test(start_paused = true)]
async fn a_profile_is_a_machine_of_the_simulator() {
    let machine = machine(Pace::Profile("rtx4090-8b".into()));
    let times = moments(&machine, work(512, 3)).await;
    assert!(times[0] < 100 && times[2] - times[0] < 60, "{times:?}");
    assert!(machine.enter(work(40_000, 1)).is_err(), "longer than its context");
}

#[test]
fn invalid_settings_are_explained() {
    let wrong = |settings: Settings| Engine::start(settings).unwrap_err().to_string();
    let profile = Settings { pace: Pace::Profile("tpu".into()), ..fast() };
    assert!(wrong(profile).contains("rtx4090-8b"));
    let pace = Pace::Service { time: Duration::from_millis(1), at_once: 0 };
    assert!(wrong(Settings { pace, ..fast() }).contains("at least 1"));
    assert!(wrong(Settings { models: Vec::new(), ..fast() }).contains("--model"));
    assert!(wrong(Settings { failure_share: 2.0, ..fast() }).contains("from 0 to 1"));
    let pace = Pace::Tokens(TokenPace { max_num_seqs: 0, ..TokenPace::default() });
    assert!(wrong(Settings { pace, ..fast() }).contains("max_seqs must be at least 1"));
}

#[test]
fn an_unavailable_address_is_named_with_a_remedy() {
    let engine = start(fast());
    let listen = engine.address();
    let told = Engine::start(Settings { listen, ..fast() }).unwrap_err().to_string();
    let begin = format!("cannot listen on {listen}: ");
    assert!(told.starts_with(&begin) && told.contains("is another server there?"), "{told}");
    // For documentation, so that no machine has it.
    let listen = "192.0.2.1:0".parse().unwrap();
    let told = Engine::start(Settings { listen, ..fast() }).unwrap_err().to_string();
    assert!(told.contains("this machine does not have that address"), "{told}");
}

/// Over the wire: twelve clients, four at once, and clients that leave make room.
#[test]
fn never_more_than_the_limit_run_at_once() {
    let pace = Pace::Service { time: Duration::from_millis(20), at_once: 4 };
    let engine = start(Settings { pace, ..fast() });
    let head = "POST /v1/chat/completions HTTP/1.1";
    let streams: Vec<_> = (0..12).map(|_| send(&engine, head, &chat_body(""))).collect();
    for stream in streams {
        assert_eq!(read(stream).status, 200);
    }
    let seen = engine.control().counters();
    assert_eq!((seen.max_running_seen, seen.completed, seen.in_flight), (4, 12, 0));
    assert!(seen.max_in_flight_seen > 4, "the others waited in its own line");
}

#[test]
fn a_client_that_leaves_frees_its_slot() {
    let engine = start(Settings { pace: tokens(1), ..fast() });
    let head = "POST /v1/chat/completions HTTP/1.1";
    for rest in [r#","max_tokens":8000"#, r#","max_tokens":8000,"stream":true"#] {
        let long = send(&engine, head, &chat_body(rest));
        until(&engine, |seen| seen.running == 1);
        drop(long);
        assert_eq!(chat(&engine, r#","max_tokens":1"#).status, 200, "there is room again");
    }
    let seen = until(&engine, |seen| seen.in_flight == 0);
    assert_eq!((seen.aborted, seen.completed, seen.max_running_seen), (2, 2, 1));
}

#[test]
fn an_engine_that_is_stopped_is_gone() {
    let engine = start(fast());
    let address = engine.address();
    assert_eq!(get(&engine, "/health").status, 200);
    engine.stop().unwrap();
    assert!(std::net::TcpStream::connect(address).is_err());
}
