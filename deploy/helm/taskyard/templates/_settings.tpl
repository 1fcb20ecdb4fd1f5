{{/* The settings file: what the values give, and what is the chart's, which is in force. */}}
{{- define "taskyard.settings" -}}
{{- $pair := dict "cert" "/etc/taskyard/tls/tls.crt" "key" "/etc/taskyard/tls/tls.key" -}}
{{- $gateway := deepCopy $pair -}}
{{- if .Values.tls.clientCa.existingSecret -}}
{{- $_ := set $gateway "clientCa" "/etc/taskyard/client-ca/ca.crt" -}}
{{- end -}}
{{- $own := dict "grpc" "0.0.0.0:50051" "rest" "0.0.0.0:9867" "metrics" "0.0.0.0:9464" -}}
{{- $_ := set $own "tls" $pair -}}
{{- $_ := set $own "gatewayTls" $gateway -}}
{{- $_ := set $own "auth" (dict "required" true) -}}
{{- if .Values.keda.scale -}}
{{- $namespaces := list -}}
{{- range .Values.keda.scale -}}
{{- $namespaces = append $namespaces (.namespace | default "default") -}}
{{- end -}}
{{- $grant := dict "role" "viewer" "namespaces" (uniq $namespaces) -}}
{{- $rule := dict "uri" "spiffe://taskyard/keda" "grants" (list $grant) -}}
{{- $_ := set $own.auth "certificates" (append (dig "auth" "certificates" list .Values.settings) $rule) -}}
{{- end -}}
{{- if eq .Values.store "sqlite" -}}
{{- $_ := set $own "store" (dict "url" "sqlite:////var/lib/taskyard/yard.db") -}}
{{- else -}}
{{- $at := "/etc/taskyard/replicas" -}}
{{- $files := dict "cert" (printf "%s/tls.crt" $at) "key" (printf "%s/tls.key" $at) "ca" (printf "%s/ca.crt" $at) -}}
{{- $_ := set $own "replicas" $files -}}
{{- end -}}
{{- mergeOverwrite (deepCopy .Values.settings) $own | mustToPrettyJson -}}
{{- end }}

{{/* Seconds that the server has to end: what its settings give to tasks, and a minute for all else. */}}
{{- define "taskyard.graceSecs" -}}
{{- $secs := 60 -}}
{{- with .Values.settings -}}
{{- if hasKey . "shutdownGracePeriodSeconds" -}}
{{- $secs = add $secs (ceil .shutdownGracePeriodSeconds) -}}
{{- else if or .executor .tabs -}}
{{- $secs = add $secs 300 -}}
{{- end -}}
{{- end -}}
{{- $secs -}}
{{- end }}
