#!/usr/bin/env python3
"""image.py PROGRAM ARCHITECTURE VERSION FOLDER: an image in OCI's layout, without a daemon.

The image has one layer: the program, its configuration, the roots of certificates, and a user that
is not root. A dynamic program has the libraries of this machine beside it. There is no shell. The time of its files is SOURCE_DATE_EPOCH, so the same program
gives the same bytes. deploy/docker/Dockerfile describes the same image.
"""

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time

USER = 65532
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
CONFIGURATION = "deploy/docker/tidegate.toml"
ACCOUNTS = {
    "etc/passwd": f"tidegate:x:{USER}:{USER}:Tidegate:/var/lib/tidegate:/sbin/nologin\n",
    "etc/group": f"tidegate:x:{USER}:\n",
}


def libraries(program):
    """The files that a dynamic program needs, at the paths where its loader looks for them."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    words = [line.split() for line in listed.stdout.splitlines()]
    if not any("=>" in line for line in words):
        with open(program, "rb") as file:
            if b"/ld-linux" in file.read(8192):
                sys.exit(f"{program} is dynamic, and this machine does not know its libraries")
        return []
    paths = [path for line in words for path in line if path.startswith("/")]
    return sorted(os.path.normpath(path) for path in paths)


def layer(program, epoch):
    """The files of the image as a tar archive."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:

        def add(name, mode, content=None, owner=0):
            entry = tarfile.TarInfo(name)
            entry.mode, entry.mtime, entry.uid, entry.gid = mode, epoch, owner, owner
            if content is None:
                entry.type = tarfile.DIRTYPE
                tar.addfile(entry)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))

        for folder in ["etc", "etc/ssl", "etc/ssl/certs", "etc/tidegate", "usr", "usr/bin"]:
            add(folder, 0o755)
        add("tmp", 0o1777)
        add("var", 0o755)
        add("var/lib", 0o755)
        add("var/lib/tidegate", 0o750, owner=USER)
        for name, text in ACCOUNTS.items():
            add(name, 0o644, text.encode())
        needed = {path.lstrip("/"): path for path in libraries(program)}
        folders = {"/".join(name.split("/")[:depth]) for name in needed
                   for depth in range(1, name.count("/") + 1)}
        for folder in sorted(folders - {"usr"}):
            add(folder, 0o755)
        files = {"usr/bin/tidegate": program, "etc/tidegate/tidegate.toml": CONFIGURATION}
        files.update(needed)
        if os.path.exists(CERTIFICATES):
            files[CERTIFICATES.lstrip("/")] = CERTIFICATES
        for name, path in files.items():
            with open(path, "rb") as file:
                is_program = name == "usr/bin/tidegate" or name in needed
                add(name, 0o755 if is_program else 0o644, file.read())
    return archive.getvalue()


def main():
    program, architecture, version, folder = sys.argv[1:]
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    blobs = os.path.join(folder, "blobs/sha256")
    os.makedirs(blobs)

    def blob(media_type, content):
        digest = hashlib.sha256(content).hexdigest()
        with open(os.path.join(blobs, digest), "wb") as file:
            file.write(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def document(media_type, value):
        return blob(media_type, json.dumps(value, sort_keys=True).encode())

    files = layer(program, epoch)
    kind = "application/vnd.oci.image"
    packed = blob(f"{kind}.layer.v1.tar+gzip", gzip.compress(files, 6, mtime=0))
    configuration = document(f"{kind}.config.v1+json", {
        "architecture": architecture,
        "os": "linux",
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
        "config": {
            "User": f"{USER}:{USER}",
            "Entrypoint": ["/usr/bin/tidegate"],
            "Cmd": ["serve", "--config", "/etc/tidegate/tidegate.toml"],
            "WorkingDir": "/var/lib/tidegate",
            "ExposedPorts": {"8430/tcp": {}, "9002/tcp": {}, "9003/tcp": {}, "9004/tcp": {}},
            "Labels": {
                "org.opencontainers.image.title": "tidegate",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(files).hexdigest()}"]},
        "history": [{"created_by": "tools/image.py"}],
    })
    manifest = document(f"{kind}.manifest.v1+json", {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": configuration,
        "layers": [packed],
    })
    manifest["platform"] = {"architecture": architecture, "os": "linux"}
    manifest["annotations"] = {"org.opencontainers.image.ref.name": version}
    index = {"schemaVersion": 2, "mediaType": f"{kind}.index.v1+json", "manifests": [manifest]}
    for name, value in {"oci-layout": {"imageLayoutVersion": "1.0.0"}, "index.json": index}.items():
        with open(os.path.join(folder, name), "w") as file:
            json.dump(value, file, sort_keys=True)


if __name__ == "__main__":
    main()
