{{/* Names, labels and the parts that several objects share. */}}

{{- define "kube-ipvs.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The names of the nodes on which the DaemonSet may run, as JSON; none where nothing is installed. */}}
{{- define "kube-ipvs.linuxNodes" -}}
{{- $names := list -}}
{{- range (lookup "v1" "Node" "" "").items -}}
{{- if eq (dig "kubernetes.io/os" "linux" (.metadata.labels | default dict)) "linux" -}}
{{- $names = append $names .metadata.name -}}
{{- end -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{- define "kube-ipvs.nameLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Labels of the pods of the DaemonSet and of no other pods: a DaemonSet adopts every pod that its selector matches. */}}
{{- define "kube-ipvs.selectorLabels" -}}
{{ include "kube-ipvs.nameLabels" . }}
app.kubernetes.io/component: proxy
{{- end -}}

{{- define "kube-ipvs.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{ include "kube-ipvs.nameLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
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
{{- merge $kind (.Values.config | default dict) | toYaml -}}
{{- end -}}

{{/* The configuration without the fields for whose changes no daemon has to restart, whatever the mode: mode is one of them. */}}
{{- define "kube-ipvs.restartConfig" -}}
{{- $config := deepCopy (.Values.config | default dict) -}}
{{- $facts := .Files.Get "files/validation.json" | fromJson -}}
{{- range $facts.withoutRestart -}}
  {{- $keys := splitList "." . -}}
  {{- $block := $config -}}
  {{- range initial $keys -}}
    {{- $block = index $block . | default dict -}}
  {{- end -}}
  {{- $_ := unset $block (last $keys) -}}
{{- end -}}
{{- range $name, $_ := $config.featureGates -}}
  {{- if not (has $name $facts.restartGates) -}}{{- $_ := unset $config.featureGates $name -}}{{- end -}}
{{- end -}}
{{- /* A block of which nothing is left is the same as none. */ -}}
{{- range $name, $block := $config -}}
  {{- if and (kindIs "map" $block) (not $block) -}}{{- $_ := unset $config $name -}}{{- end -}}
{{- end -}}
{{- toYaml $config -}}
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
{{- with .Values.seLinuxOptions }}
seLinuxOptions:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What the daemon and the test of `helm test` mount. */}}
{{- define "kube-ipvs.volumeMounts" -}}
- name: config
  mountPath: /var/lib/kube-ipvs
  readOnly: true
- name: api-access
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
- name: xtables-lock
  mountPath: /run/xtables.lock
{{- with include "kube-ipvs.socketFolder" . }}
- name: local-socket
  mountPath: {{ . | quote }}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kube-ipvs.volumes" -}}
- name: config
  configMap:
    name: {{ include "kube-ipvs.fullname" . | quote }}
# The token of the ServiceAccount, which only containers mount that talk to the API server.
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
{{ include "kube-ipvs.lockVolume" . }}
{{- with include "kube-ipvs.socketFolder" . }}
# The socket at which commands ask the daemon, also those that run on the node itself.
- name: local-socket
  hostPath:
    path: {{ . | quote }}
    type: DirectoryOrCreate
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The folder of config.kubeIPVS.socket; nothing when there is no socket. The folder of the node is mounted, so it must be of its own. */}}
{{- define "kube-ipvs.socketFolder" -}}
{{- $socket := "/run/kube-ipvs/kube-ipvs.sock" -}}
{{- $own := (.Values.config | default dict).kubeIPVS | default dict -}}
{{- if kindIs "string" $own.socket -}}{{- $socket = $own.socket -}}{{- end -}}
{{- if $socket -}}
{{- if not (regexMatch "^/[^/]+/[^/]" (dir $socket)) -}}
{{- fail (printf "config.kubeIPVS.socket (%s) must be in a folder of its own below a folder such as /run, because the pod mounts that folder of the node" $socket) -}}
{{- end -}}
{{- dir $socket -}}
{{- end -}}
{{- end -}}

{{/* The lock that programs of iptables-legacy share on a node. */}}
{{- define "kube-ipvs.lockVolume" -}}
- name: xtables-lock
  hostPath:
    path: /run/xtables.lock
    type: FileOrCreate
{{- end -}}

{{/* The ports of the daemon on the node. The scheduler puts no two pods with one of them on a node, so never two proxies. */}}
{{- define "kube-ipvs.ports" -}}
{{- $health := include "kube-ipvs.portOf" (list ((.Values.config | default dict).healthzBindAddress | default "") "10256") -}}
{{- $metrics := include "kube-ipvs.portOf" (list ((.Values.config | default dict).metricsBindAddress | default "") "10249") -}}
- name: healthz
  containerPort: {{ $health }}
  hostPort: {{ $health }}
  protocol: TCP
- name: metrics
  containerPort: {{ $metrics }}
  hostPort: {{ $metrics }}
  protocol: TCP
{{- end -}}

{{/* The host of a probe where the daemon does not listen on all addresses; otherwise the kubelet uses the address of the node. */}}
{{- define "kube-ipvs.probeHost" -}}
{{- $host := regexReplaceAll ":[0-9]+$" (regexFind "^([^:]*|\\[.*\\]):[0-9]+$" .) "" | default . | trimPrefix "[" | trimSuffix "]" -}}
{{- if not (has $host (list "" "0.0.0.0" "::")) }}{{ $host }}{{ end -}}
{{- end -}}
