#!/usr/bin/env bash
# Runs the tests of Kubernetes with a real kube-apiserver and etcd, which it builds into .tools/cluster
# if they are absent. They listen on loopback only, and end with this script.
#   tools/cluster.sh            builds, starts, tests
#   tools/cluster.sh COMMAND    the same with another command instead of the tests
set -euo pipefail
cd "$(dirname "$0")/.."
kubernetes=1.36.3
etcd=3.6.8
# The last release that has the objectives and the rewrites, in their older group.
extension=1.3.0
tools=$PWD/.tools/cluster
mkdir -p "$tools"

# The sources come from Go's registry. Kubernetes pins all of its dependencies; its own parts are
# modules of the same release there.
build() {
	local source=$tools/source
	mkdir -p "$source"
	cd "$source"
	rm -f go.mod go.sum
	go mod init cluster
	local manifest
	manifest=$(go mod download -json "k8s.io/kubernetes@v$kubernetes" | jq -r .GoMod)
	sed -nE "s|^\s+(k8s.io/[a-z-]+) => \./staging.*|-replace=\1=\1@v0.${kubernetes#*.}|p" "$manifest" |
		xargs go mod edit "-require=k8s.io/kubernetes@v$kubernetes" "-require=go.etcd.io/etcd/server/v3@v$etcd"
	export CGO_ENABLED=0 GOFLAGS='-mod=mod -buildvcs=false'
	go build -o "$tools/etcd" -ldflags '-s -w' go.etcd.io/etcd/server/v3
	local version=k8s.io/component-base/version.gitVersion=v$kubernetes
	go build -o "$tools/kube-apiserver" -ldflags "-s -w -X $version" k8s.io/kubernetes/cmd/kube-apiserver
}

# The CRDs of the inference extension.
definitions() {
	cd "$tools"
	local module=sigs.k8s.io/gateway-api-inference-extension@v$extension
	cp "$(go mod download -json "$module" | jq -r .Dir)"/config/crd/bases/*.yaml "$1"
}

if ! [ -x "$tools/etcd" ] || ! "$tools/kube-apiserver" --version 2>/dev/null | grep -q "v$kubernetes$"; then
	echo "building kube-apiserver $kubernetes and etcd $etcd: about ten minutes on two cores"
	(build)
fi

folder=$(mktemp -d)
pids=()
stop() {
	[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
	# It would wait a minute for etcd, and it keeps nothing.
	! [ -e "$folder/pid" ] || kill -9 "$(cat "$folder/pid")" 2>/dev/null || true
	wait
	rm -rf "$folder"
}
trap stop EXIT
[ -d "$tools/crds" ] || { mkdir "$tools/crds.new" && (definitions "$tools/crds.new") && mv "$tools/crds.new" "$tools/crds"; }

# Free ports of loopback.
read -r etcd_port peer_port api_port < <(python3 -c '
import socket
sockets = [socket.socket() for _ in range(3)]
for each in sockets: each.bind(("127.0.0.1", 0))
print(*(each.getsockname()[1] for each in sockets))')

"$tools/etcd" --data-dir "$folder/etcd" --log-level error --unsafe-no-fsync \
	--listen-client-urls "http://127.0.0.1:$etcd_port" --advertise-client-urls "http://127.0.0.1:$etcd_port" \
	--listen-peer-urls "http://127.0.0.1:$peer_port" >"$folder/etcd.log" 2>&1 &
pids+=($!)

openssl ecparam -name prime256v1 -genkey -noout -out "$folder/accounts.key"
token=$(openssl rand -hex 16)
echo "$token,admin,admin,system:masters" >"$folder/tokens.csv"
echo "$token" >"$folder/token"
url=https://127.0.0.1:$api_port
echo "$url" >"$folder/url"
# It is started again when it ends, so that a test may kill it. There is no controller that makes the
# account `default`, so no pod can need it.
serve() {
	while :; do
		"$tools/kube-apiserver" --etcd-servers "http://127.0.0.1:$etcd_port" --bind-address 127.0.0.1 \
			--secure-port "$api_port" --cert-dir "$folder" --token-auth-file "$folder/tokens.csv" \
			--authorization-mode RBAC --disable-admission-plugins ServiceAccount \
			--service-account-issuer "$url" --service-account-key-file "$folder/accounts.key" \
			--service-account-signing-key-file "$folder/accounts.key" \
			--service-cluster-ip-range 10.0.0.0/24 >>"$folder/kube-apiserver.log" 2>&1 &
		echo $! >"$folder/pid"
		wait $! || true
	done
}
# Without the shell's remark about a killed program.
serve 2>/dev/null &
pids+=($!)

call() { curl -sS --fail-with-body --cacert "$folder/apiserver.crt" -H "Authorization: Bearer $token" "$@"; }
for _ in $(seq 600); do
	call "$url/readyz" >/dev/null 2>&1 && break
	kill -0 "${pids[@]}" 2>/dev/null || break
	sleep 0.2
done
call "$url/readyz" >/dev/null || { tail -n 30 "$folder"/*.log >&2; exit 1; }
for file in "$tools"/crds/*.yaml; do
	case $file in *kustomization.yaml) continue ;; esac
	call -H 'Content-Type: application/yaml' --data-binary "@$file" \
		"$url/apis/apiextensions.k8s.io/v1/customresourcedefinitions" >/dev/null
done
# A definition is served a moment after it was made.
for plural in inferencepools inferenceobjectives; do
	case $plural in inferencepools) api=inference.networking.k8s.io/v1 ;; *) api=inference.networking.x-k8s.io/v1alpha2 ;; esac
	for _ in $(seq 100); do
		call "$url/apis/$api/$plural" >/dev/null 2>&1 && break
		sleep 0.1
	done
done
export CLUSTER_FOLDER=$folder
if [ $# -gt 0 ]; then "$@"; else cargo test --test main --locked -- --test-threads 1 kubernetes:: --skip gateway::; fi
