{{/* Names and labels of what the chart makes. */}}

{{/* A StatefulSet may have 52 characters: its pods have a label with ten more. A Service may have no dot. */}}
{{- define "taskyard.fullname" -}}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) -}}
{{- .Values.fullnameOverride | default $name | replace "." "-" | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- define "taskyard.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "taskyard.labels" -}}
{{ include "taskyard.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "taskyard.tlsSecret" -}}
{{- .Values.tls.existingSecret | default (printf "%s-tls" (include "taskyard.fullname" .)) -}}
{{- end }}

{{- define "taskyard.replicaSecret" -}}
{{- .Values.replicaTls.existingSecret | default (printf "%s-replicas" (include "taskyard.fullname" .)) -}}
{{- end }}

{{- define "taskyard.tokenSecret" -}}
{{- .Values.tokens.existingSecret | default (printf "%s-tokens" (include "taskyard.fullname" .)) -}}
{{- end }}

{{/* By which names it is called within the cluster, the shortest first. */}}
{{- define "taskyard.hosts" -}}
{{- $name := include "taskyard.fullname" . -}}
{{- $there := printf "%s.%s" $name .Release.Namespace -}}
{{- list $name $there (printf "%s.svc" $there) (printf "%s.svc.cluster.local" $there) | toJson -}}
{{- end }}
