#!/usr/bin/env bash
# The existing endpoint picker, to be measured beside ours: built from its Go module, outside this
# tree, and run without Kubernetes.
#
#   tools/existing-picker.sh                       builds it; needs Go, takes minutes
#   tools/existing-picker.sh PORT SERVER_PORT      becomes it: listens on PORT, before one server
#   tidegate-bench epp --beside tools/existing-picker.sh
#
# It is the last release of the Inference Extension that has the whole picker (queue, scorers,
# parsers); the picker has moved since, and later ones are not to be had as a module.
set -euo pipefail

module=sigs.k8s.io/gateway-api-inference-extension
version=v1.5.0
folder=${TIDEGATE_EXISTING_PICKER:-${XDG_CACHE_HOME:-$HOME/.cache}/tidegate/existing-picker}
program=$folder/epp-$version
tools=$(cd "$(dirname "$0")" && pwd)

if [ ! -x "$program" ]; then
	command -v go >/dev/null || { echo "Go is not installed" >&2; exit 1; }
	mkdir -p "$folder"
	cd "$folder"
	source=$(go mod download -json "$module@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
	# The module's own folder is read-only, and building writes go.sum.
	rm -rf "source-$version"
	cp -r "$source" "source-$version"
	chmod -R u+w "source-$version"
	(cd "source-$version" && GOWORK=off GOFLAGS=-mod=mod go build -o "$program.new" ./cmd/epp)
	mv "$program.new" "$program"
fi
[ $# -ge 2 ] || exit 0

free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
config=$(mktemp)
# It ends when the picker does, which has our process number then.
exec {pods}< <(python3 "$tools/one_pod.py" $$ "$2"; rm -f "$config")
read -r api <&"$pods"
cat >"$config" <<EOF
{"apiVersion": "v1", "kind": "Config", "current-context": "c",
 "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:$api"}}],
 "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
 "users": [{"name": "u", "user": {}}]}
EOF
# Its default scorers, with its queue on; without TLS, as ours is measured, and quiet.
text='{"apiVersion": "inference.networking.x-k8s.io/v1alpha1", "kind": "EndpointPickerConfig",
 "featureGates": ["flowControl"],
 "plugins": [{"type": "queue-scorer"}, {"type": "kv-cache-utilization-scorer"},
  {"type": "prefix-cache-scorer"}],
 "schedulingProfiles": [{"name": "default", "plugins": [
  {"pluginRef": "queue-scorer", "weight": 2}, {"pluginRef": "kv-cache-utilization-scorer", "weight": 2},
  {"pluginRef": "prefix-cache-scorer", "weight": 3}]}]}'
KUBECONFIG=$config exec "$program" --grpc-port "$1" \
	--grpc-health-port "$(free)" --metrics-port "$(free)" --metrics-endpoint-auth=false \
	--secure-serving=false --tracing=false --health-checking --v 0 --config-text "$text" \
	--pool-namespace default --pool-name pool --model-server-metrics-port "$api"
