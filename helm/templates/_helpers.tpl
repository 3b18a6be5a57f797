{{/* Names, labels and the parts that several objects share. */}}

{{- define "kube-ipvs.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kube-ipvs.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kube-ipvs.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "kube-ipvs.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "kube-ipvs.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "kube-ipvs.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "kube-ipvs.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default (printf "v%s" $.Chart.AppVersion) }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The document of the ConfigMap. */}}
{{- define "kube-ipvs.config" -}}
{{- $kind := dict "apiVersion" "kubeproxy.config.k8s.io/v1alpha1" "kind" "KubeProxyConfiguration" -}}
{{- merge $kind .Values.config | toYaml -}}
{{- end -}}

{{/* The port at the end of an address of the configuration, or the default: (list ADDRESS DEFAULT). */}}
{{- define "kube-ipvs.portOf" -}}
{{- regexFind ":[0-9]+$" (index . 0 | regexFind "^([^:]*|\\[.*\\]):[0-9]+$") | trimPrefix ":" | default (index . 1) -}}
{{- end -}}

{{/* How a program of the image reaches the API server and knows its node. */}}
{{- define "kube-ipvs.env" -}}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- with .Values.apiServer.host }}
- name: KUBERNETES_SERVICE_HOST
  value: {{ . | quote }}
- name: KUBERNETES_SERVICE_PORT
  value: {{ $.Values.apiServer.port | quote }}
{{- end }}
{{- end -}}

{{/* Rights of a container that reads and writes the tables of the kernel. */}}
{{- define "kube-ipvs.securityContext" -}}
runAsUser: 0
runAsGroup: 0
privileged: false
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
  add: {{ .Values.capabilities | toJson }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* The token of the ServiceAccount, for the containers that talk to the API server and for no others. */}}
{{- define "kube-ipvs.tokenVolume" -}}
- name: api-access
  projected:
    defaultMode: 0400
    sources:
      - serviceAccountToken:
          expirationSeconds: 3607
          path: token
      - configMap:
          name: kube-root-ca.crt
          items:
            - key: ca.crt
              path: ca.crt
      - downwardAPI:
          items:
            - path: namespace
              fieldRef:
                fieldPath: metadata.namespace
{{- end -}}

{{/* The host of a probe where the daemon does not listen on all addresses; otherwise the kubelet uses the address of the node. */}}
{{- define "kube-ipvs.probeHost" -}}
{{- $host := regexReplaceAll ":[0-9]+$" (regexFind "^([^:]*|\\[.*\\]):[0-9]+$" .) "" | default . | trimPrefix "[" | trimSuffix "]" -}}
{{- if not (has $host (list "" "0.0.0.0" "::")) }}{{ $host }}{{ end -}}
{{- end -}}
