"""manifests.py FOLDER: whether the manifests of deploy/kubernetes fit together, and the chart's values
its schema. Writes into FOLDER the configuration of each ConfigMap, for `tidegate check`, and tests of
the queries, for promtool.

An API server checks each object alone. That a Service finds the pods, and a probe a port, nothing
checks before a request fails.
"""

import json
import pathlib
import sys

import yaml

CHART = pathlib.Path("deploy/helm/tidegate")
MANIFESTS = pathlib.Path("deploy/kubernetes")


def objects(name):
    documents = yaml.safe_load_all((MANIFESTS / name).read_text())
    return {document["kind"]: document for document in documents if document}


def includes(labels, selector):
    return all(labels.get(key) == value for key, value in selector.items())


def configured_ports(config, mode):
    section = config["epp" if mode == "epp" else "server"]
    return {int(value.rsplit(":", 1)[1]) for key, value in section.items() if key.endswith("listen")}


def check_stop(mode, spec, container, config):
    """A pod still gets requests for a moment after its end has begun. `serve` refuses them on SIGTERM,
    so SIGTERM waits; `epp` takes them for `epp.drain`. The wait is part of the grace period."""
    sleep = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    assert (sleep >= 5) == (mode == "serve"), (mode, sleep)
    grace = int(config["server"]["grace"].rstrip("s"))
    assert grace + sleep + 5 <= spec["terminationGracePeriodSeconds"], (grace, sleep)


def check_mode(mode, folder):
    found = objects(f"{mode}.yaml")
    pod = found["Deployment"]["spec"]["template"]
    labels, spec = pod["metadata"]["labels"], pod["spec"]
    container = spec["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert includes(labels, found["Deployment"]["spec"]["selector"]["matchLabels"])
    assert includes(labels, found["Service"]["spec"]["selector"])
    for port in found["Service"]["spec"]["ports"]:
        assert port["targetPort"] in ports, port
    for probe in ("livenessProbe", "readinessProbe"):
        action = container[probe].get("grpc") or container[probe]["httpGet"]
        assert action["port"] in [*ports, *ports.values()], probe
    assert container["args"][0] == mode
    assert spec["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
    assert found["RoleBinding"]["roleRef"]["name"] == found["Role"]["metadata"]["name"]
    # An API server refuses a service account without a namespace.
    subject = {"kind": "ServiceAccount", "name": spec["serviceAccountName"], "namespace": "models"}
    assert found["RoleBinding"]["subjects"] == [subject]
    text = found["ConfigMap"]["data"]["tidegate.yaml"]
    config = yaml.safe_load(text)
    assert configured_ports(config, mode) == set(ports.values()), (config, ports)
    check_stop(mode, spec, container, config)
    (folder / f"{mode}.yaml").write_text(text)
    return found, labels, ports


def check_examples(found, labels, ports):
    examples = objects("examples.yaml")
    service = found["Service"]
    served = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    pool = examples["InferencePool"]
    picker = pool["spec"]["endpointPickerRef"]
    assert picker["name"] == service["metadata"]["name"]
    assert picker["port"]["number"] == served["grpc"]
    backend = examples["HTTPRoute"]["spec"]["rules"][0]["backendRefs"][0]
    assert (backend["kind"], backend["name"]) == ("InferencePool", pool["metadata"]["name"])
    config = yaml.safe_load(found["ConfigMap"]["data"]["tidegate.yaml"])
    assert config["discovery"]["kubernetes"]["pool"] == pool["metadata"]["name"]
    for kind, field in [("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")]:
        assert includes(labels, examples[kind]["spec"][field]["matchLabels"]), kind
    rules = examples["NetworkPolicy"]["spec"]["ingress"]
    peers = {port["port"]: rule.get("from") for rule in rules for port in rule["ports"]}
    assert set(peers) == set(ports.values()), peers
    assert peers[ports["metrics"]], "the status pages and metrics are not for every pod"
    monitor = examples["ServiceMonitor"]["spec"]
    assert includes(service["metadata"]["labels"], monitor["selector"]["matchLabels"])
    assert monitor["endpoints"][0]["port"] in served
    assert config["epp"]["llm_d_metrics"], "the rules of the ScaledObject use these names"


def query_tests(scaled):
    """The queries of a ScaledObject, as tests for promtool. Another release in the namespace has no
    effect. The saturation is 1 without a ready backend, and must not keep a Deployment from zero."""
    queue, saturation = [trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"]]
    names = ("flow_control_queue_size", "flow_control_pool_saturation", "ready_endpoints")

    def series(labels, values):
        named = zip(names, values)
        return [{"series": f"llm_d_epp_{name}{labels}", "values": str(value)} for name, value in named]

    def case(labels, values, wanted):
        other = series('{namespace="models",service="other"}', (7, 7, 7))
        results = zip((queue, saturation), wanted)
        expected = [
            {"expr": expr, "eval_time": "0m", "exp_samples": [{"labels": "{}", "value": value}]}
            for expr, value in results
        ]
        return {"input_series": other + series(labels, values), "promql_expr_test": expected}

    ours = '{namespace="models",service="tidegate"}'
    cases = [
        case(ours, (0, 1, 0), (0, 0)),
        case(ours, (3, 1, 0), (3, 0)),
        case(ours, (2, 0.5, 4), (2, 0.5)),
        # Scraped without a monitor.
        case('{namespace="models"}', (2, 0.5, 4), (2, 0.5)),
    ]
    return {"tests": [{"interval": "1m", **each} for each in cases]}


def check_serve_examples(found, ports):
    """The route has the paths of clients and not those of operators, which share the port."""
    examples = objects("serve-examples.yaml")
    (rule,) = examples["HTTPRoute"]["spec"]["rules"]
    (backend,) = rule["backendRefs"]
    assert backend["name"] == found["Service"]["metadata"]["name"]
    assert backend["port"] == ports["http"]
    matched = {(match["path"]["type"], match["path"]["value"]) for match in rule["matches"]}
    # One port has the requests and the metrics.
    (allowed,) = examples["NetworkPolicy"]["spec"]["ingress"]
    peers = [peer["namespaceSelector"]["matchLabels"].popitem()[1] for peer in allowed["from"]]
    assert peers == ["gateway", "monitoring"], peers
    assert [port["port"] for port in allowed["ports"]] == [ports["http"]]
    config = yaml.safe_load(found["ConfigMap"]["data"]["tidegate.yaml"])
    assert set(config["discovery"]["kubernetes"]) == {"selector", "port"}, config
    engine = {("Exact", path) for path in ("/tokenize", "/detokenize", "/rerank", "/score")}
    assert matched == engine | {("PathPrefix", path) for path in ("/v1", "/api", "/openai")}, matched


def check_values(values, schema, path=""):
    """Each value has a place in the schema, and each place of the schema a value. The keys of `config`
    are those of the program."""
    known = set(schema.get("properties", {}))
    assert set(values) == known - {"global"}, f"{path}: {set(values) ^ known}"
    assert schema["additionalProperties"] is False, path
    for name, inner in values.items():
        if "properties" in schema["properties"][name] and name != "config":
            check_values(inner, schema["properties"][name], f"{path}{name}.")


def main():
    folder = pathlib.Path(sys.argv[1])
    check_examples(*check_mode("epp", folder))
    tests = query_tests(objects("examples.yaml")["ScaledObject"])
    (folder / "queries.yml").write_text(yaml.safe_dump(tests))
    found, _, ports = check_mode("serve", folder)
    check_serve_examples(found, ports)
    schema = json.loads((CHART / "values.schema.json").read_text())
    check_values(yaml.safe_load((CHART / "values.yaml").read_text()), schema)


if __name__ == "__main__":
    main()
