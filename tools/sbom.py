#!/usr/bin/env python3
"""Prints the bill of materials of the program `tidegate` (CycloneDX 1.5, JSON) from Cargo's own data.

It has every package that is compiled into the program, or runs while it is compiled, for Linux on
x86-64. Tests and measurements are no part of it. The same sources give the same bytes.
"""

import json
import re
import subprocess
import sys

PLATFORM = "x86_64-unknown-linux-gnu"


def checksums():
    """The SHA-256 of each package, from Cargo.lock."""
    found = {}
    for entry in open("Cargo.lock").read().split("[[package]]")[1:]:
        fields = dict(re.findall(r'^(\w+) = "(.*)"$', entry, re.M))
        if "checksum" in fields:
            found[fields["name"], fields["version"]] = fields["checksum"]
    return found


def used(metadata):
    """The ids of the program and of all that it needs, without dependencies of tests."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = next(package["id"] for package in metadata["packages"] if package["name"] == "tidegate")
    seen, todo = {root}, [root]
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            kinds = {kind["kind"] for kind in dependency["dep_kinds"]}
            if kinds != {"dev"} and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    return root, seen, nodes


def component(package, sums):
    name, version = package["name"], package["version"]
    entry = {"type": "library", "bom-ref": f"{name}@{version}", "name": name, "version": version}
    if package["license"]:
        expression = re.sub(r"\s*/\s*", " OR ", package["license"])
        entry["licenses"] = [{"expression": expression}]
    if package["source"]:
        entry["purl"] = f"pkg:cargo/{name}@{version}"
        entry["hashes"] = [{"alg": "SHA-256", "content": sums[name, version]}]
    return entry


def main():
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", PLATFORM]
    metadata = json.loads(subprocess.check_output(command + sys.argv[1:]))
    root, seen, nodes = used(metadata)
    sums = checksums()
    packages = {package["id"]: package for package in metadata["packages"] if package["id"] in seen}
    names = {id: f"{package['name']}@{package['version']}" for id, package in packages.items()}
    needs = lambda id: sorted(names[other] for other in nodes[id]["dependencies"] if other in names)
    program = {**component(packages[root], sums), "type": "application"}
    order = sorted(names, key=names.get)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": program},
        "components": [component(packages[id], sums) for id in order if id != root],
        "dependencies": [{"ref": names[id], "dependsOn": needs(id)} for id in order],
    }
    json.dump(bill, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
