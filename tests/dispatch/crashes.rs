//! Crashes: no accepted message is lost, and each has one result.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::fixture::{
    Dispatcher, QUEUE, QUICK, await_results, config, count, results, submit, unix,
};
use crate::support::{Backend, Random, Redis, ScriptedResponse, Stopwatch, eventually};

/// The ids of all results; each id must occur once.
fn ids(results: &[Value]) -> BTreeSet<String> {
    let all: Vec<String> =
        results.iter().map(|result| result["id"].as_str().unwrap().to_owned()).collect();
    let ids: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(ids.len(), all.len(), "a result was kept twice");
    ids
}

#[test]
fn d07_dispatchers_killed_at_any_point_lose_nothing_and_keep_one_result_each() {
    let (redis, backend) = (
        Redis::start_with(&["--appendfsync", "always"]),
        Backend::start(|_| ScriptedResponse::ok().after_ms(20)),
    );
    let mut random = Random::new("dispatchers killed");
    let (total, workers) = (300, 8);
    for number in 0..total {
        submit(&redis, &format!("m{number}"), unix() + 600);
    }
    // The shortest lease, so that the messages of a killed dispatcher are pending again soon.
    let sections = format!("{QUICK}workers = {workers}\nlease = \"1s\"\n");
    let config = config(&sections, "\"open\"", &redis, backend.address());
    let mut kills = 0;
    while results(&redis).len() < total && kills < 30 {
        let mut dispatcher = Dispatcher::start(&config);
        let life = random.below(200);
        let watch = Stopwatch::start();
        eventually("its time has come", || {
            let over = watch.elapsed().as_millis() as u64 >= life || results(&redis).len() >= total;
            if over { Ok(()) } else { Err("it lives".into()) }
        });
        dispatcher.process.kill();
        kills += 1;
    }
    let _last = Dispatcher::start(&config);
    let results = await_results(&redis, total);
    assert_eq!(ids(&results).len(), total);
    let sent = backend.seen().len();
    assert!(sent <= total + kills * 2 * workers, "{sent} sent for {total}, {kills} killed");
    assert_eq!(count(&redis), 0);
}

#[test]
fn d07_a_claim_is_renewed_for_as_long_as_its_request_takes() {
    let (redis, backend) = (Redis::start(), Backend::held());
    submit(&redis, "long", unix() + 600);
    let sections = format!("{QUICK}lease = \"3s\"\n");
    let config = config(&sections, "\"open\"", &redis, backend.address());
    let _both = [Dispatcher::start(&config), Dispatcher::start(&config)];
    backend.await_running(1);
    let watch = Stopwatch::start();
    eventually("more than two leases are over", || match watch.elapsed().as_secs() {
        7.. => Ok(()),
        _ => Err("not yet".into()),
    });
    backend.open();
    assert_eq!(ids(&await_results(&redis, 1)).len(), 1);
    assert_eq!(backend.seen().len(), 1, "no other dispatcher reclaimed it");
}

/// Another dispatcher may have the message, so the response of this request is useless.
#[test]
fn d07_a_request_whose_claim_is_lost_is_cut_off() {
    let (redis, backend) = (Redis::start(), Backend::held());
    submit(&redis, "lost", unix() + 600);
    let sections = format!("{QUICK}lease = \"3s\"\n");
    let config = config(&sections, "\"open\"", &redis, backend.address());
    let dispatcher = Dispatcher::start(&config);
    backend.await_running(1);
    let keys = ["claimed", "claim-owners", "claims-idx"].map(|key| format!("{QUEUE}:{key}"));
    let [claimed, owners, index] = keys.each_ref().map(String::as_str);
    redis.call(&["DEL", claimed, owners, index]);
    eventually("it is let go", || match dispatcher.queue(QUEUE) {
        queue if queue["ends"]["lost"] == 1 && queue["in_flight"] == 0 => Ok(()),
        queue => Err(queue.to_string()),
    });
    backend.await_running(0);
    assert_eq!(results(&redis).len(), 0);
}

#[test]
fn d08_two_dispatchers_share_a_queue_and_send_no_message_twice() {
    let (redis, backend) = (Redis::start(), Backend::held());
    let total = 100;
    for number in 0..total {
        submit(&redis, &format!("m{number}"), unix() + 600);
    }
    let sections = format!("{QUICK}workers = 4\n");
    let config = config(&sections, "\"open\"", &redis, backend.address());
    let both = [Dispatcher::start(&config), Dispatcher::start(&config)];
    backend.await_running(8);
    backend.open();
    let results = await_results(&redis, total);
    assert_eq!(ids(&results).len(), total);
    assert_eq!(backend.seen().len(), total, "each was sent once");
    assert_eq!(backend.most(), 8, "four workers each");
    for dispatcher in &both {
        let answered = dispatcher.queue(QUEUE)["ends"]["answered"].as_u64();
        assert!(answered > Some(0), "{answered:?}");
    }
}

#[test]
fn d03_two_dispatchers_share_the_budget_of_a_gate() {
    let (redis, backend) = (Redis::start(), Backend::held());
    for number in 0..30 {
        submit(&redis, &format!("m{number}"), unix() + 600);
    }
    let five = "[[dispatch.gates]]\nname = \"five\"\nkind = \"constant\"\nbaseline = 0.0\n\
                capacity = 5\n";
    let sections = format!("{QUICK}{five}");
    let config = config(&sections, "\"five\"", &redis, backend.address());
    let mut first = Dispatcher::start(&config);
    backend.await_running(5);
    let second = Dispatcher::start(&config);
    // The first dispatcher has three places now; the other gets two when their requests end.
    let share = |dispatcher: &Dispatcher| {
        let page = dispatcher.page("/dispatch").json();
        let gates = page["gates"].as_array().unwrap().clone();
        let five = gates.iter().find(|gate| gate["name"] == "five").unwrap().clone();
        five["n"].as_u64().unwrap_or(0)
    };
    eventually("both have a share", || {
        let shares = share(&first) + share(&second);
        let both = share(&first) > 0 && share(&second) > 0;
        if both && shares == 5 { Ok(()) } else { Err(format!("{shares}")) }
    });
    backend.open();
    await_results(&redis, 30);
    assert_eq!(backend.most(), 5, "together they had no more than one would have had");
    first.process.signal("TERM");
    assert!(first.process.exit().success());
    eventually("the other has all of it", || {
        let whole = share(&second);
        if whole == 5 { Ok(()) } else { Err(format!("{whole}")) }
    });
}

#[test]
fn d07_a_redis_that_restarts_loses_nothing_that_was_accepted() {
    let (mut redis, backend) = (
        Redis::start_with(&["--appendfsync", "always"]),
        Backend::start(|_| ScriptedResponse::ok().after_ms(10)),
    );
    let count = 150;
    for number in 0..count {
        submit(&redis, &format!("m{number}"), unix() + 600);
    }
    let sections = format!("{QUICK}workers = 4\nlease = \"2s\"\n");
    let config = config(&sections, "\"open\"", &redis, backend.address());
    let _dispatcher = Dispatcher::start(&config);
    for part in [30, 80] {
        await_results(&redis, part);
        redis.kill();
        redis.restart();
    }
    let results = await_results(&redis, count);
    assert_eq!(ids(&results).len(), count);
}

/// The server stays, and its connections break again and again: between claims, results, and while
/// messages are given back.
#[test]
fn d07_connections_that_break_in_the_middle_of_a_batch_lose_nothing() {
    let redis = Redis::start();
    let backend = Backend::start(|seen| match seen.number % 3 {
        0 => ScriptedResponse::json(500, "{}").after_ms(2),
        _ => ScriptedResponse::ok().after_ms(2),
    });
    let total = 120;
    for number in 0..total {
        submit(&redis, &format!("m{number}"), unix() + 600);
    }
    let config = config(QUICK, "\"open\"", &redis, backend.address());
    let dispatcher = Dispatcher::start(&config);
    for part in (10..total).step_by(10) {
        await_results(&redis, part);
        for kind in ["normal", "pubsub"] {
            redis.call(&["CLIENT", "KILL", "TYPE", kind]);
        }
    }
    let results = await_results(&redis, total);
    assert_eq!(ids(&results).len(), total);
    let answered = results.iter().filter(|result| result["status_code"] == 200).count();
    assert_eq!(answered, total);
    eventually("nothing is left", || match dispatcher.queue(QUEUE) {
        queue if ["pending", "retry", "claimed"].iter().all(|state| queue[*state] == 0) => Ok(()),
        queue => Err(queue.to_string()),
    });
}

/// The next dispatcher sends it when it is due, and knows that it failed before.
#[test]
fn d07_a_message_that_waits_for_its_retry_outlives_its_killed_dispatcher() {
    let redis = Redis::start();
    let backend = Backend::start(|_| ScriptedResponse::json(500, "{}"));
    submit(&redis, "patient", unix() + 600);
    let sections = "[dispatch]\nbackoff = \"2s\"\nattempts = 2\n";
    let config = config(sections, "\"open\"", &redis, backend.address());
    let mut dispatcher = Dispatcher::start(&config);
    eventually("a scheduled retry", || match redis.call(&["ZCARD", "retry-sortedset"]).texts() {
        count if count == ["1"] => Ok(()),
        count => Err(format!("{count:?}")),
    });
    dispatcher.process.kill();
    assert_eq!(redis.call(&["ZCARD", "retry-sortedset"]).texts(), ["1"], "it is still due later");
    let _next = Dispatcher::start(&config);
    let results = await_results(&redis, 1);
    assert_eq!(results[0]["status_code"], 500);
    let times: Vec<_> = backend.seen().iter().map(|seen| seen.at).collect();
    assert_eq!(times.len(), 2, "the failure before the kill counts");
    assert!(times[1] - times[0] >= Duration::from_secs(1), "half of the pause is chance");
}

#[test]
fn d07_a_redis_that_fails_over_loses_nothing_that_was_accepted() {
    let (mut primary, replica) = (Redis::start(), Redis::start());
    replica.call(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    let backend = Backend::start(|_| ScriptedResponse::ok().after_ms(10));
    let total = 120;
    for number in 0..total {
        submit(&primary, &format!("m{number}"), unix() + 600);
    }
    eventually("replicated", || {
        let waiting = count(&replica);
        if waiting == total { Ok(()) } else { Err(format!("{waiting}")) }
    });
    let sections = format!("{QUICK}workers = 4\nlease = \"2s\"\n");
    let both = format!("urls = [\"{}\", \"{}\"]\nreplicas = 1", primary.url(), replica.url());
    let one = format!("urls = [\"{}\"]", primary.url());
    let config = config(&sections, "\"open\"", &primary, backend.address()).replace(&one, &both);
    let _dispatcher = Dispatcher::start(&config);
    await_results(&primary, 40);
    primary.kill();
    replica.call(&["REPLICAOF", "NO", "ONE"]);
    // The old primary returns as a replica, because writes must reach two servers.
    primary.restart();
    primary.call(&["REPLICAOF", "127.0.0.1", &replica.port().to_string()]);
    let results = await_results(&replica, total);
    assert_eq!(ids(&results).len(), total);
}

/// The sentinel alone knows the servers. It promotes a replica after the primary was killed.
#[test]
fn d07_a_failover_by_a_sentinel_loses_nothing_that_was_accepted() {
    let mut primary = Redis::start();
    let replicas = [Redis::start(), Redis::start()];
    let port = primary.port().to_string();
    for replica in &replicas {
        replica.call(&["REPLICAOF", "127.0.0.1", &port]);
    }
    let sentinel = Redis::sentinel(primary.port(), &[]);
    let backend = Backend::start(|_| ScriptedResponse::ok().after_ms(10));
    let total = 120;
    for number in 0..total {
        submit(&primary, &format!("m{number}"), unix() + 600);
    }
    eventually("replicated, and known to the sentinel", || {
        let waiting = [count(&replicas[0]), count(&replicas[1])];
        let known = sentinel.call(&["SENTINEL", "replicas", "main"]).texts();
        let known = known.iter().filter(|word| *word == "name").count();
        if (waiting, known) == ([total; 2], 2) {
            Ok(())
        } else {
            Err(format!("{waiting:?}, {known}"))
        }
    });
    // The first sentinel of the list is away.
    let away = "redis://127.0.0.1:1";
    let named =
        format!("urls = [\"{away}\", \"{}\"]\nsentinel = \"main\"\nreplicas = 1", sentinel.url());
    let sections = format!("{QUICK}workers = 4\nlease = \"2s\"\n");
    let one = format!("urls = [\"{}\"]", primary.url());
    let config = config(&sections, "\"open\"", &primary, backend.address()).replace(&one, &named);
    let _dispatcher = Dispatcher::start(&config);
    await_results(&primary, 40);
    primary.kill();
    let promoted = eventually("promoted", || {
        let address = sentinel.call(&["SENTINEL", "get-master-addr-by-name", "main"]).texts();
        let is_at = |replica: &&Redis| address.last() == Some(&replica.port().to_string());
        replicas.iter().find(is_at).ok_or(format!("{address:?}"))
    });
    let results = await_results(promoted, total);
    assert_eq!(ids(&results).len(), total);
}
