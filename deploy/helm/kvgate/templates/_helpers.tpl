{{- define "kvgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "kvgate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "kvgate.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "kvgate.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kvgate.selector" -}}
app.kubernetes.io/name: {{ include "kvgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kvgate.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "kvgate.selector" . }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "kvgate.podSelector" -}}
{{ include "kvgate.selector" . }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "kvgate.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "kvgate.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "kvgate.namespaces" -}}
{{- .Values.engines.namespaces | default (list .Release.Namespace) | toJson -}}
{{- end -}}

{{- define "kvgate.podLabels" -}}
{{- $pairs := list -}}
{{- range $key, $value := .Values.engines.podSelector -}}
{{- $pairs = append $pairs (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end -}}

{{- define "kvgate.redisUrl" -}}
{{- if .Values.redis.url -}}
{{- .Values.redis.url -}}
{{- else if .Values.redis.bundled -}}
redis://{{ include "kvgate.fullname" . }}-valkey:6379/0
{{- end -}}
{{- end -}}

{{- /* Names and numbers of the workers' admin ports, as a list. */ -}}
{{- define "kvgate.adminPorts" -}}
{{- $ports := list -}}
{{- range $number := until (int .Values.workers) -}}
{{- $name := ternary "admin" (printf "admin-%d" $number) (eq $number 0) -}}
{{- $ports = append $ports (dict "name" $name "port" (add $.Values.adminPort $number)) -}}
{{- end -}}
{{- $ports | toJson -}}
{{- end -}}

{{- /* Refuses what values.schema.json can't see: what depends on several values. */ -}}
{{- define "kvgate.checked" -}}
{{- if gt (int .Values.workers) 1 -}}
{{- $own := dig "index" "redis_url" "" .Values.config -}}
{{- if not (or (include "kvgate.redisUrl" .) $own .Values.existingConfigSecret) -}}
{{- fail "workers: several workers of a pod share their index in Redis, or each would know a part of the engines only: set redis.url or redis.bundled, or raise replicaCount instead" -}}
{{- end -}}
{{- end -}}
{{- $last := add .Values.adminPort .Values.workers -1 -}}
{{- if and (ge (int .Values.containerPort) (int .Values.adminPort)) (le (int .Values.containerPort) (int $last)) -}}
{{- fail (printf "containerPort: %d is one of the workers' admin ports, %d to %d" (int .Values.containerPort) (int .Values.adminPort) $last) -}}
{{- end -}}
{{- end -}}

{{- /* kvgate's configuration: what follows from the values, under what `config` says itself. */ -}}
{{- define "kvgate.config" -}}
{{- $kubernetes := dict "namespaces" (include "kvgate.namespaces" . | fromJsonArray) "port" .Values.engines.port -}}
{{- if .Values.engines.selector -}}
{{- $_ := set $kubernetes "selector" .Values.engines.selector -}}
{{- else -}}
{{- $_ := set $kubernetes "service" .Values.engines.service -}}
{{- end -}}
{{- with include "kvgate.podLabels" . -}}
{{- $_ := set $kubernetes "pods" . -}}
{{- end -}}
{{- $derived := dict
      "listen" (dict "port" (int .Values.containerPort) "admin_port" (int .Values.adminPort))
      "discovery" (dict "kubernetes" (list $kubernetes))
      "limits" (dict "drain" (int .Values.drainSeconds)) -}}
{{- with include "kvgate.redisUrl" . -}}
{{- $_ := set $derived "index" (dict "redis_url" .) -}}
{{- end -}}
{{- if .Values.keysSecret -}}
{{- $_ := set $derived "admission" (dict "keys_file" "/etc/kvgate-keys/keys.yaml") -}}
{{- end -}}
{{- if .Values.curvine.enabled -}}
{{- $_ := set $derived "l2" (dict "path" (printf "%s/%s" .Values.curvine.mountPath .Values.curvine.subPath | trimSuffix "/")) -}}
{{- end -}}
{{- mergeOverwrite $derived (deepCopy .Values.config) | toYaml -}}
{{- end -}}
