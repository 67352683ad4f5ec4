#!/usr/bin/env bash
# systemd.sh FOLDER SCRIPT: boots a systemd of its own on a copy of this system and runs SCRIPT there
# as a service, with FOLDER at /packages. Prints its output and ends with its status. Nothing of this
# system changes: the copy is an overlay in memory. It needs a mount namespace of its own:
# `unshare --mount`.
set -euo pipefail
work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
mkdir "$work"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"
root=$work/root
# systemd makes a new one.
rm -f "$root/etc/machine-id"
: >"$root/etc/machine-id"
cp "$2" "$root/script.sh"
cat >"$root/etc/systemd/system/script.service" <<'END'
[Unit]
Requires=systemd-journald.service
After=systemd-journald.service
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/bash -c 'bash -eux /script.sh >/script.out 2>&1; echo $? >/script.status'
ExecStopPost=/bin/systemctl exit --force
END
# The loopback device of the container is its only network.
SYSTEMD_NSPAWN_LOCK=0 timeout --signal KILL 120 systemd-nspawn --quiet --register=no --keep-unit \
	--directory "$root" --private-network --console=pipe --bind-ro="$1:/packages" \
	--boot systemd.unit=script.service </dev/null >"$work/boot.out" 2>&1 || true
cat "$root/script.out" 2>/dev/null || cat "$work/boot.out"
exit "$(cat "$root/script.status" 2>/dev/null || echo 99)"
