{{/* The pod of both forms. */}}
{{- define "taskyard.pod" -}}
{{- $isPostgres := eq .Values.store "postgres" -}}
metadata:
  labels:
    {{- include "taskyard.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # Most settings are read at the start alone.
    {{- $checksum := dict "checksum/settings" (include "taskyard.settings" . | sha256sum) }}
    {{- merge $checksum .Values.podAnnotations | toYaml | nindent 4 }}
spec:
  serviceAccountName: {{ include "taskyard.fullname" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ include "taskyard.graceSecs" . }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets: {{ toJson . }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ quote . }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{ toJson . }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{ toJson . }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{ toJson . }}
  {{- end }}
  {{- if $isPostgres }}
  topologySpreadConstraints:
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: {{ $.Values.spread }}
      labelSelector:
        matchLabels:
          {{- include "taskyard.selector" $ | nindent 10 }}
      matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- end }}
  containers:
    - name: taskyard
      {{- with .Values.image }}
      image: {{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
      imagePullPolicy: {{ .pullPolicy }}
      {{- end }}
      args: [up, --config, /etc/taskyard/taskyard.json]
      ports:
        - {name: grpc, containerPort: 50051}
        - {name: rest, containerPort: 9867}
        - {name: metrics, containerPort: 9464}
        {{- if $isPostgres }}
        - {name: replicas, containerPort: 50052}
        {{- end }}
      env:
        {{- include "taskyard.env" . | nindent 8 }}
      # While it loads what is kept nothing listens.
      startupProbe:
        httpGet: {path: /healthz, port: metrics, scheme: HTTPS}
        periodSeconds: 2
        failureThreshold: 300
        timeoutSeconds: 6
      # The server itself waits for 5 s for its event loop.
      livenessProbe:
        httpGet: {path: /healthz, port: metrics, scheme: HTTPS}
        periodSeconds: 10
        failureThreshold: 6
        timeoutSeconds: 6
      # By the way that callers take.
      readinessProbe:
        httpGet: {path: /readyz, port: rest, scheme: HTTPS}
        periodSeconds: 5
        failureThreshold: 2
        timeoutSeconds: 6
      {{- if $isPostgres }}
      lifecycle:
        # Until no balancer sends new connections here. It is a part of the time to end.
        preStop: {sleep: {seconds: 5}}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources: {{ toJson .Values.resources }}
      volumeMounts:
        - {name: settings, mountPath: /etc/taskyard, readOnly: true}
        - {name: state, mountPath: /var/lib/taskyard}
        - {name: tmp, mountPath: /tmp}
        {{- with .Values.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: settings
      projected:
        defaultMode: 0440
        sources:
          {{- include "taskyard.files" . | nindent 10 }}
    {{- if $isPostgres }}
    - {name: state, emptyDir: {}}
    {{- end }}
    # The gateway's own files and sockets.
    - {name: tmp, emptyDir: {}}
    {{- with .Values.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- define "taskyard.env" -}}
- {name: XDG_STATE_HOME, value: /var/lib}
- {name: TMPDIR, value: /tmp}
# The image names files that it would make by itself.
- {name: TASKYARD_CA, value: ""}
- {name: TASKYARD_TOKEN_FILE, value: ""}
- name: TASKYARD_ADMIN_TOKEN
  valueFrom: {secretKeyRef: {name: {{ include "taskyard.tokenSecret" . | quote }}, key: admin-token}}
- name: TASKYARD_METRICS_TOKEN
  valueFrom: {secretKeyRef: {name: {{ include "taskyard.tokenSecret" . | quote }}, key: metrics-token}}
{{- if eq .Values.store "postgres" }}
- name: TASKYARD_STORE__URL
  valueFrom: {secretKeyRef: {{ dict "name" .Values.postgres.existingSecret "key" .Values.postgres.key | toJson }}}
- name: TASKYARD_REPLICAS__NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- {name: TASKYARD_REPLICAS__ADVERTISE, value: "$(POD_IP):50052"}
{{- if .Values.postgres.ca.existingSecret }}
- {name: PGSSLROOTCERT, value: /etc/taskyard/postgres/ca.crt}
{{- end }}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What lies below /etc/taskyard. It is one volume, so that what is renewed is renewed at once. */}}
{{- define "taskyard.files" -}}
- configMap:
    name: {{ include "taskyard.fullname" . }}
    items: [{key: taskyard.json, path: taskyard.json}]
- secret:
    name: {{ include "taskyard.tlsSecret" . | quote }}
    items: [{key: tls.crt, path: tls/tls.crt}, {key: tls.key, path: tls/tls.key}]
{{- with .Values.tls.clientCa }}{{ if .existingSecret }}
- secret:
    name: {{ quote .existingSecret }}
    items: [{key: {{ .key | default "ca.crt" | quote }}, path: client-ca/ca.crt}]
{{- end }}{{ end }}
{{- if eq .Values.store "postgres" }}
- secret:
    name: {{ include "taskyard.replicaSecret" . | quote }}
    items:
      {{- range list "tls.crt" "tls.key" "ca.crt" }}
      - {key: {{ . }}, path: replicas/{{ . }}}
      {{- end }}
{{- with .Values.postgres.ca }}{{ if .existingSecret }}
- secret:
    name: {{ quote .existingSecret }}
    items: [{key: {{ .key | default "ca.crt" | quote }}, path: postgres/ca.crt}]
{{- end }}{{ end }}
{{- end }}
{{- end }}
