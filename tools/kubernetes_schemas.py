#!/usr/bin/env python3
"""kubernetes_schemas.py FOLDER MODULES: the schemas of Kubernetes and of the CRDs that the chart uses,
for kubeconform, from the sources in Go's module cache MODULES. It needs PyYAML.

A field that a schema does not have is an error, as it is for `kubectl apply --validate=strict`.
"""

import glob
import json
import os
import sys

import yaml

CRDS = [
    "sigs.k8s.io/gateway-api@*/config/crd/standard/*_httproutes.yaml",
    "sigs.k8s.io/gateway-api-inference-extension@*/config/crd/bases/inference.networking.k8s.io_inferencepools.yaml",
    "github.com/kedacore/keda/v2@*/config/crd/bases/keda.sh_scaledobjects.yaml",
    "github.com/prometheus-operator/prometheus-operator@*/example/prometheus-operator-crd/*_servicemonitors.yaml",
]


def strict(schema):
    """The same, with unknown fields as errors."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: strict(value) for key, value in schema.items()}
    closed = "properties" in schema and "additionalProperties" not in schema
    if closed and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema["additionalProperties"] = False
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        schema.pop("type", None)
    return schema


def write(folder, group, version, kind, schema):
    name = f"{kind}-{group}-{version}" if group else f"{kind}-{version}"
    with open(os.path.join(folder, name.lower() + ".json"), "w") as file:
        json.dump(schema, file)


def main():
    folder, modules = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    swagger = sorted(glob.glob(f"{modules}/k8s.io/kubernetes@*/api/openapi-spec/swagger.json"))[-1]
    with open(swagger) as file:
        definitions = strict(json.load(file)["definitions"])
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", []):
            # kubeconform takes the first label of a group: rbac of rbac.authorization.k8s.io.
            group = kind["group"].split(".")[0]
            schema = {"$ref": f"#/definitions/{name}", "definitions": definitions}
            if kind["kind"] in ("ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget",
                                "Role", "RoleBinding", "Service", "ServiceAccount"):
                write(folder, group, kind["version"], kind["kind"], schema)
    for pattern in CRDS:
        path = sorted(glob.glob(f"{modules}/{pattern}"))[-1]
        with open(path) as file:
            crd = yaml.safe_load(file)["spec"]
        for version in crd["versions"]:
            schema = strict(version["schema"]["openAPIV3Schema"])
            # A CRD leaves the fields of its metadata to the API server.
            schema["properties"]["metadata"] = {"type": "object"}
            group = crd["group"].split(".")[0]
            write(folder, group, version["name"], crd["names"]["kind"], schema)


if __name__ == "__main__":
    main()
