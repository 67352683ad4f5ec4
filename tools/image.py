#!/usr/bin/env python3
"""image.py PROGRAM ARCHITECTURE VERSION FOLDER: an image in OCI's layout, without a daemon.

The image has one layer: the program, its configuration, the roots of certificates, and a user that
is not root. There is no shell. The time of its files is SOURCE_DATE_EPOCH, so the same program
gives the same bytes. deploy/docker/Dockerfile describes the same image.
"""

import gzip
import hashlib
import io
import json
import os
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
        files = {"usr/bin/tidegate": program, "etc/tidegate/tidegate.toml": CONFIGURATION}
        if os.path.exists(CERTIFICATES):
            files[CERTIFICATES.lstrip("/")] = CERTIFICATES
        for name, path in files.items():
            with open(path, "rb") as file:
                add(name, 0o755 if name.startswith("usr/bin") else 0o644, file.read())
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
