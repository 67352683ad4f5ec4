//! The cluster of the settings, as they change.

use tokio::sync::mpsc;

use super::super::{Cluster, ClusterChange};
use crate::config::settings::{ClusterRules, Kubernetes, KubernetesTarget};

#[tokio::test]
async fn x02_discovery_that_is_removed_leaves_no_backends() {
    let settings = Kubernetes {
        // A port of the loopback address that refuses connections.
        url: Some("http://127.0.0.1:9".into()),
        token_file: None,
        ca_file: None,
        namespace: None,
        targets: vec![KubernetesTarget::Pods { selector: "app=a".into(), port: 8000 }],
    };
    let cluster = Cluster::new(Some(settings));
    let (changes, mut seen) = mpsc::channel(8);
    let follow = cluster.follow(|change| changes.try_send(change).unwrap());
    let no_rules = || Some(ClusterChange::Rules(ClusterRules::default()));
    let reload = async {
        assert_eq!(seen.recv().await, no_rules());
        cluster.configure(&None);
        assert_eq!(seen.recv().await, Some(ClusterChange::NoPool));
        assert_eq!(seen.recv().await, no_rules());
    };
    tokio::select! {
        () = follow => panic!("it follows for ever"),
        () = reload => {}
    }
}
