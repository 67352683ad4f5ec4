//! Reflection, read by gRPC's own client and by a generic one.

use crate::support::Gateway;
use crate::support::envoy::FREE;
use crate::support::tools::{python, run};

const BACKEND: &str = "[[backends]]\nurl = \"http://127.0.0.1:1\"\n";

/// What a verb of the client prints, on the port of Envoy and on that of health.
fn told(verb: &str) -> [Vec<String>; 2] {
    let picker = Gateway::picker(BACKEND, FREE);
    let [door, health, ..] = picker.process.addresses() else { panic!("two ports") };
    [door, health].map(|port| {
        let said = run(python("grpc_services.py").args([verb, &port.to_string()]));
        said.lines().map(str::to_owned).collect()
    })
}

#[test]
fn x02_services_files_and_symbols_are_served_under_both_names() {
    for said in told("services") {
        let mut wanted = Vec::new();
        for version in ["v1", "v1alpha"] {
            let services = "envoy.service.ext_proc.v3.ExternalProcessor grpc.health.v1.Health \
                            grpc.reflection.v1.ServerReflection \
                            grpc.reflection.v1alpha.ServerReflection";
            wanted.push(format!("{version} {services}"));
            // Its own, three that it imports of Envoy's, and two of protobuf's.
            wanted.push(format!("{version} files 6"));
            wanted.push(format!("{version} NOT_FOUND"));
            wanted.push(format!("{version} UNIMPLEMENTED"));
        }
        assert_eq!(said, wanted);
    }
}

#[test]
fn x02_a_client_that_knows_nothing_can_make_every_call() {
    for said in told("call") {
        let [methods @ .., status] = said.as_slice() else { panic!("{said:?}") };
        let methods: Vec<&str> =
            methods.iter().map(|method| method.split_once(' ').unwrap().0).collect();
        let wanted = [
            "envoy.service.ext_proc.v3.ExternalProcessor.Process",
            "grpc.health.v1.Health.Check",
            "grpc.health.v1.Health.List",
            "grpc.health.v1.Health.Watch",
            "grpc.reflection.v1.ServerReflection.ServerReflectionInfo",
            "grpc.reflection.v1alpha.ServerReflection.ServerReflectionInfo",
        ];
        assert_eq!(methods, wanted);
        assert_eq!(status, "SERVING");
    }
}

/// The answers are many times what may wait unsent.
#[test]
fn x02_any_number_of_questions_is_answered_in_order() {
    for said in told("many") {
        assert_eq!(said, ["2000 answers in order"]);
    }
}
