{{- define "tidegate.name" -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "tidegate.image" -}}
{{- with .Values.image -}}
{{- $version := printf ":%s" (default $.Chart.AppVersion .tag) -}}
{{- if .digest -}}{{- $version = printf "@%s" .digest -}}{{- end -}}
{{- printf "%s%s" .repository $version | quote -}}
{{- end -}}
{{- end -}}

{{- define "tidegate.account" -}}
{{- default (include "tidegate.name" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "tidegate.selector" -}}
app.kubernetes.io/name: tidegate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tidegate.labels" -}}
{{ include "tidegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* The InferencePool to follow. In mode serve a Service or a selector takes its place. */}}
{{- define "tidegate.pool" -}}
{{- with .Values.discovery -}}
{{- if not (and (eq $.Values.mode "serve") (or .service .selector)) -}}{{- .pool -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses an address in `config` at which the ports of the chart would find nothing. */}}
{{- define "tidegate.listens" -}}
{{- range $key, $port := ternary (dict "listen" "9002" "health_listen" "9003" "metrics_listen" "9090") (dict "listen" "8430") (eq .Values.mode "epp") -}}
{{- $section := ternary "epp" "server" (eq $.Values.mode "epp") -}}
{{- $listen := dig $section $key "" $.Values.config -}}
{{- if and $listen (ne $listen (printf "0.0.0.0:%s" $port)) (ne $listen (printf "[::]:%s" $port)) -}}
{{- fail (printf "config.%s.%s is %s: the ports of the chart need 0.0.0.0:%s or [::]:%s" $section $key $listen $port $port) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The port of the status pages in mode serve, if they have an address of their own. */}}
{{- define "tidegate.pages" -}}
{{- $listen := dig "admin" "listen" "" .Values.config -}}
{{- if and $listen (eq .Values.mode "serve") -}}
{{- if not (regexMatch "^(0\\.0\\.0\\.0|\\[::\\]):[0-9]+$" $listen) -}}
{{- fail (printf "config.admin.listen is %s: the probes need 0.0.0.0:PORT or [::]:PORT" $listen) -}}
{{- end -}}
{{- splitList ":" $listen | last -}}
{{- end -}}
{{- end -}}

{{/* The scheme of the probes and of the monitor in mode serve: the port of the pages has TLS or not. */}}
{{- define "tidegate.scheme" -}}
{{- $server := default dict .Values.config.server -}}
{{- $tls := default dict $server.tls -}}
{{- $admin := default dict .Values.config.admin -}}
{{- $has_tls := or $tls.cert_file $tls.certificates -}}
{{- if and (include "tidegate.pages" .) (hasKey $admin "tls") -}}{{- $has_tls = and $has_tls $admin.tls -}}{{- end -}}
{{- if $has_tls -}}
{{- if and $tls.client_ca_file (ne (lower (default "required" $tls.client_certificates)) "optional") -}}
{{- fail "config.server.tls.client_ca_file: the probes have no certificate. Set client_certificates: optional there, or config.admin: {listen: 0.0.0.0:9090, tls: false}" -}}
{{- end -}}
HTTPS
{{- else -}}HTTP{{- end -}}
{{- end -}}

{{/* Whether the status pages need an admin key. Empty: they do not. */}}
{{- define "tidegate.keys" -}}
{{- $auth := default dict .Values.config.auth -}}
{{- if or $auth.keys $auth.key_file .Values.config.tenants -}}true{{- end -}}
{{- range .Values.env -}}
{{- if has .name (list "TIDEGATE_AUTH__KEYS" "TIDEGATE_AUTH__KEY_FILE") -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* The configuration: that of the chart, with `config` over it. */}}
{{- define "tidegate.config" -}}
{{- include "tidegate.listens" . -}}
{{- $sleep := ternary .Values.preStopSleepSeconds 0 (eq .Values.mode "serve") | int -}}
{{- $seconds := sub .Values.terminationGracePeriodSeconds (add 10 $sleep) -}}
{{- if lt $seconds 5 -}}
{{- fail (printf "terminationGracePeriodSeconds must be at least %d: 15 more than preStopSleepSeconds" (add 15 $sleep)) -}}
{{- end -}}
{{- $grace := printf "%ds" $seconds -}}
{{- $config := dict "server" (dict "listen" "0.0.0.0:8430" "grace" $grace) -}}
{{- if eq .Values.mode "epp" -}}
{{- $listen := dict "listen" "0.0.0.0:9002" "health_listen" "0.0.0.0:9003" "metrics_listen" "0.0.0.0:9090" "llm_d_metrics" true -}}
{{- $config = dict "server" (dict "grace" $grace) "epp" $listen -}}
{{- end -}}
{{- with .Values.scaledObject -}}
{{- if and .enabled (eq .trigger "external-push") -}}
{{- $_ := set $config "scaler" (dict "listen" (printf "0.0.0.0:%v" .scalerPort)) -}}
{{- else if and .enabled (eq $.Values.mode "serve") -}}
{{- $_ := set $config "epp" (dict "llm_d_metrics" true) -}}
{{- end -}}
{{- end -}}
{{- $found := dict -}}
{{- $pool := include "tidegate.pool" . -}}
{{- with .Values.discovery -}}
{{- if $pool -}}{{- $_ := set $found "pool" $pool -}}{{- $_ := set $found "pool_group" (default "stable" .poolGroup) -}}{{- end -}}
{{- if .service -}}{{- $_ := set $found "service" .service -}}{{- end -}}
{{- if .selector -}}{{- $_ := set $found "selector" .selector -}}{{- end -}}
{{- if or .service .selector -}}{{- $_ := set $found "port" .port -}}{{- end -}}
{{- end -}}
{{- if $found -}}{{- $_ := set $config "discovery" (dict "kubernetes" $found) -}}{{- end -}}
{{- toYaml (mergeOverwrite $config (deepCopy .Values.config)) -}}
{{- end -}}
