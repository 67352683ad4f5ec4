#!/usr/bin/env bash
# journal.sh TIDEGATE CONFIG: runs the gateway as systemd runs a service, before a journal of its own, and
# prints the first entry about the backend gpu-a as JSON. It needs a mount namespace of its own:
# `unshare --mount`.
set -euo pipefail
mount -t tmpfs none /run
mkdir -p /run/systemd/journal /run/log
/lib/systemd/systemd-journald >/dev/null 2>&1 &
journald=$!
gateway=
trap 'kill $gateway $journald 2>/dev/null; wait' EXIT
until [ -S /run/systemd/journal/socket ] && [ -S /run/systemd/journal/stdout ]; do
	kill -0 $journald
	sleep 0.05
done
# systemd names the stream of the journal in a variable; systemd-cat of Debian 12 does not.
run='JOURNAL_STREAM=$(stat --dereference --format %d:%i /proc/self/fd/2) exec "$0" serve --config "$1"'
systemd-cat bash -c "$run" "$1" "$2" &
gateway=$!
for _ in $(seq 600); do
	kill -0 $gateway
	entry=$(journalctl --no-pager --output json --lines 1 TIDEGATE_BACKEND=gpu-a 2>/dev/null || true)
	[ -n "$entry" ] && echo "$entry" && exit
	sleep 0.05
done
journalctl --no-pager >&2
exit 1
