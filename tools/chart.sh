#!/usr/bin/env bash
# The manifests of deploy/kubernetes, rendered from the chart in deploy/helm/tidegate.
#   tools/chart.sh           renders them again; builds helm and kubeconform into .tools if they are absent
#   tools/chart.sh --check   whether they are those of the chart, in seconds. Without helm it compares the
#                            sum of the chart that each manifest names; with helm it renders.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.tools/bin:$PATH
chart=deploy/helm/tidegate
# The schema of the values changes no manifest.
sum=$(cd "$chart" && find . -type f ! -name values.schema.json | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-16)

# render FILE ARGUMENTS of `helm template`
render() {
	file=$1
	shift
	{
		echo "# Rendered from $chart by \`make chart\`: change the chart instead. Sum of the chart: $sum."
		echo "# The namespace is \`models\`: replace it by that of your pool."
		helm template tidegate "$chart" --namespace models --kube-version 1.33 "$@" |
			grep -v '^# Source: '
	} >"$file"
}

# render_all FOLDER
render_all() {
	local only=--show-only=templates
	local peer=namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name
	helm lint --strict --quiet "$chart"
	render "$1/epp.yaml"
	render "$1/serve.yaml" --set mode=serve,discovery.selector=app=llama
	render "$1/rbac.yaml" $only/rbac.yaml --set discovery.service=any,discovery.selector=app=any
	render "$1/examples.yaml" --set inferencePool.create=true,httpRoute.create=true,replicas=2 \
		--set podDisruptionBudget.enabled=true,networkPolicy.enabled=true \
		--set "networkPolicy.metricsFrom[0].$peer=monitoring" \
		--set serviceMonitor.enabled=true,scaledObject.enabled=true \
		$only/{inferencepool,httproute,poddisruptionbudget,networkpolicy,servicemonitor,scaledobject}.yaml
	render "$1/serve-examples.yaml" --set mode=serve,httpRoute.create=true,networkPolicy.enabled=true \
		--set "networkPolicy.from[0].$peer=gateway,networkPolicy.metricsFrom[0].$peer=monitoring" \
		$only/{httproute,networkpolicy}.yaml
	render "$1/scaledobject-push.yaml" $only/scaledobject.yaml \
		--set scaledObject.enabled=true,scaledObject.trigger=external-push,scaledObject.minReplicas=0
}

# Whether the chart configures Tidegate for the trigger of its ScaledObject.
check_triggers() {
	local shown=$(mktemp)
	render "$shown" --set mode=serve,scaledObject.enabled=true
	grep -q 'llm_d_metrics: true' "$shown" || { echo "$chart: prometheus lacks llm_d_metrics" >&2; exit 1; }
	render "$shown" --set scaledObject.enabled=true,scaledObject.trigger=external-push,scaledObject.scalerPort=9105
	grep -q 'listen: 0.0.0.0:9105' "$shown" || { echo "$chart: external-push lacks scaler.listen" >&2; exit 1; }
	rm "$shown"
}

# The text after an installation, which `helm template` does not show, as a template of a copy.
check_notes() {
	local copy=$(mktemp -d) said
	cp -r "$chart/." "$copy"
	{ printf 'kind: Notes\ntext: |\n'; sed 's/^/  /' "$chart/templates/NOTES.txt"; } >"$copy/templates/notes.yaml"
	notes() { helm template tidegate "$copy" --kube-version 1.33 --show-only templates/notes.yaml "$@"; }
	for mode in epp serve; do
		said=$(notes --set "mode=$mode")
		grep -q 'the status pages need no key' <<<"$said" || { echo "$chart: $mode: no warning" >&2; exit 1; }
		said=$(notes --set "mode=$mode,env[0].name=TIDEGATE_AUTH__KEYS,env[0].value=any")
		! grep -q WARNING <<<"$said" || { echo "$chart: $mode: a warning despite a key" >&2; exit 1; }
	done
	rm -r "$copy"
}

# refuses TEXT ARGUMENTS: whether `helm template` fails with this text.
refuses() {
	local text=$1 said
	shift
	said=$(helm template tidegate "$chart" --namespace models --kube-version 1.33 "$@" 2>&1 >/dev/null) &&
		{ echo "$chart: accepted: $*" >&2; exit 1; }
	grep -qF -- "$text" <<<"$said" || { echo "$chart: $*: $said" >&2; exit 1; }
}

# shows TEXT ARGUMENTS: whether the rendered Deployment has this text.
shows() {
	local text=$1 said
	shift
	said=$(helm template tidegate "$chart" --kube-version 1.33 --show-only templates/deployment.yaml "$@")
	grep -qF -- "$text" <<<"$said" || { echo "$chart: $*: $said" >&2; exit 1; }
}

check_pod() {
	local digest=sha256:$(printf '%064d' 1)
	shows "image: \"tidegate@$digest\"" --set "image.digest=$digest,image.tag=v1"
	shows 'port: http, scheme: HTTPS' --set mode=serve,config.server.tls.cert_file=/tls.crt
	shows 'port: http, scheme: HTTPS' --set mode=serve \
		--set-json 'config.server.tls.certificates=[{"cert_file": "/tls.crt", "key_file": "/tls.key"}]'
	local own=mode=serve,config.admin.listen=0.0.0.0:9443,config.server.tls.cert_file=/tls.crt
	shows 'path: /ready, port: pages, scheme: HTTPS' --set "$own"
	shows 'name: pages, containerPort: 9443' --set "$own"
	shows 'port: pages, scheme: HTTP}' \
		--set "$own,config.admin.tls=false,config.server.tls.client_ca_file=/ca.crt"
	shows 'priorityClassName: high' --set priorityClassName=high
	shows 'secretName: tls' \
		--set-json 'volumes=[{"name": "certificates", "secret": {"secretName": "tls"}}]'
	shows 'mountPath: /etc/certificates' \
		--set-json 'volumeMounts=[{"name": "certificates", "mountPath": "/etc/certificates"}]'
}

check_refusals() {
	refuses 'terminationGracePeriodSeconds must be at least 20' \
		--set mode=serve,terminationGracePeriodSeconds=19
	refuses 'httpRoute.create needs discovery.pool' --set httpRoute.create=true,discovery.pool=
	refuses 'inferencePool.create needs discovery.pool' \
		--set inferencePool.create=true,discovery.pool=
	refuses 'scaledObject.minReplicas is 9 and must be at most maxReplicas, 8' \
		--set scaledObject.enabled=true,scaledObject.minReplicas=9
	refuses 'name Prometheus in networkPolicy.metricsFrom' \
		--set networkPolicy.enabled=true,serviceMonitor.enabled=true
	refuses 'name KEDA in networkPolicy.scalerFrom' \
		--set networkPolicy.enabled=true,scaledObject.enabled=true,scaledObject.trigger=external-push
	local tls=mode=serve,config.server.tls.cert_file=/tls.crt,config.server.tls.client_ca_file=/ca.crt
	refuses 'the probes have no certificate' --set "$tls"
	refuses 'the probes need 0.0.0.0:PORT' --set mode=serve,config.admin.listen=127.0.0.1:9443
	refuses 'the ports of the chart need 0.0.0.0:8430' --set mode=serve,config.server.listen=0.0.0.0:9000
	refuses 'the ports of the chart need 0.0.0.0:9003' --set config.epp.health_listen=127.0.0.1:9003
	refuses 'makes a pool of the stable group' \
		--set inferencePool.create=true,discovery.poolGroup=alpha
	refuses "'abc' does not match pattern" --set-string scaledObject.queueSize=abc
	refuses "'sha256:1' does not match pattern" --set image.digest=sha256:1
	refuses "additional properties 'queu' not allowed" --set config.queu.queue_ttl=60s
	refuses "additional properties 'queue_tl' not allowed" --set config.queue.queue_tl=60s
	refuses 'preStopSleepSeconds needs Kubernetes 1.30' --set mode=serve --kube-version 1.29
}

if [ "${1:-}" = --check ]; then
	for file in deploy/kubernetes/*.yaml; do
		grep -q "Sum of the chart: $sum\." "$file" || { echo "$file is not of this chart: make chart" >&2; exit 1; }
	done
	if command -v helm >/dev/null; then
		fresh=$(mktemp -d)
		trap 'rm -rf "$fresh"' EXIT
		render_all "$fresh"
		diff -r "$fresh" deploy/kubernetes
		check_triggers
		check_refusals
		check_pod
		check_notes
	fi
	exit
fi
install() { command -v "$1" >/dev/null || GOBIN=$PWD/.tools/bin go install "$2"; }
install helm helm.sh/helm/v3/cmd/helm@v3.19.0
install kubeconform github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0
rm -f deploy/kubernetes/*.yaml
render_all deploy/kubernetes
check_triggers
check_refusals
check_pod
check_notes

# The schemas of the API server and of the CRDs, from their sources.
if ! [ -d .tools/schemas ]; then
	(
		cd .tools
		for module in k8s.io/kubernetes@v1.33.0 sigs.k8s.io/gateway-api@v1.3.0 \
			sigs.k8s.io/gateway-api-inference-extension@v1.0.0 github.com/kedacore/keda/v2@v2.17.2 \
			github.com/prometheus-operator/prometheus-operator@v0.83.0; do
			go mod download "$module"
		done
	)
	.tools/python/bin/python tools/kubernetes_schemas.py .tools/schemas "$(go env GOMODCACHE)"
fi
kubeconform -strict -summary -schema-location '.tools/schemas/{{.ResourceKind}}{{.KindSuffix}}.json' \
	deploy/kubernetes/*.yaml
