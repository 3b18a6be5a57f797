{{/*
Checks `config` by the rules of the program and fails in its words, so that a mistake is found before it reaches a node. The facts are
in files/validation.json, which is generated from the program's table of fields. The order of the stages is that of the program:
decode, feature gates, logging, everything else. A test compares the messages with those of the program.
*/}}
{{- define "kube-ipvs.validate" -}}
{{- $config := .Values.config | default dict -}}
{{- $facts := .Files.Get "files/validation.json" | fromJson -}}
{{- $mode := $config.mode | default "iptables" -}}
{{- $logging := $config.logging | default dict -}}
{{- $gates := $config.featureGates | default dict -}}
{{- $epoch := toDate "2006-01-02" "2000-01-01" -}}

{{- /* Durations. */ -}}
{{- $durations := dict -}}
{{- range $path := $facts.durations -}}
  {{- $value := include "kube-ipvs.at" (list $config $path) | fromJson | dig "value" nil -}}
  {{- if kindIs "string" $value -}}
    {{- include "kube-ipvs.checkDuration" (list $path $value) -}}
    {{- $_ := set $durations $path ((mustDateModify $value $epoch).Sub $epoch) -}}
  {{- end -}}
{{- end -}}

{{- /* Feature gates. */ -}}
{{- $broken := list -}}
{{- range $name, $on := $facts.lockedGates -}}
  {{- if and (hasKey $gates $name) (ne (get $gates $name | default false) $on) -}}
    {{- $broken = append $broken (printf "cannot set feature gate %s to %t, feature is locked to %t" $name (get $gates $name | default false) $on) -}}
  {{- end -}}
{{- end -}}
{{- include "kube-ipvs.failFor" (list "failed complete" $broken) -}}

{{- /* Logging. */ -}}
{{- $format := $logging.format | default "text" -}}
{{- $alpha := get $gates "LoggingAlphaOptions" | default (and (not (hasKey $gates "LoggingAlphaOptions")) (get $gates "AllAlpha")) -}}
{{- with $logging.flushFrequency -}}
  {{- $isText := hasKey $durations "logging.flushFrequency" -}}
  {{- $flush := $isText | ternary (get $durations "logging.flushFrequency") . -}}
  {{- if lt ($isText | ternary ($flush | printf "%d") (toJson $flush) | float64) 0.0 -}}
    {{- $broken = append $broken (printf "logging.flushFrequency: Invalid value: %s: Must be greater than zero" ($isText | ternary (printf "%s" $flush | quote) (toJson $flush))) -}}
  {{- end -}}
{{- end -}}
{{- if not (has $format (list "text" "json")) -}}
  {{- $broken = append $broken (printf "logging.format: Invalid value: %q: Unsupported log format" $format) -}}
{{- end -}}
{{- if gt (float64 ($logging.verbosity | default 0)) 2147483647.0 -}}
  {{- $broken = append $broken (printf "logging.verbosity: Invalid value: %s: Must be <= 2147483647" (toJson $logging.verbosity)) -}}
{{- end -}}
{{- if and $logging.vmodule (ne $format "text") -}}
  {{- $broken = append $broken "logging.vmodule: Forbidden: Only supported for text log format" -}}
{{- end -}}
{{- range $index, $item := $logging.vmodule -}}
  {{- $pattern := $item.filePattern | default "" -}}
  {{- if eq $pattern "" -}}
    {{- $broken = append $broken (printf "logging.vmodule[%d]: Required value: File pattern must not be empty" $index) -}}
  {{- else if regexMatch "[=,]" $pattern -}}
    {{- $broken = append $broken (printf "logging.vmodule[%d]: Invalid value: %q: File pattern must not contain equal sign or comma" $index $pattern) -}}
  {{- end -}}
  {{- if gt (float64 ($item.verbosity | default 0)) 2147483647.0 -}}
    {{- $broken = append $broken (printf "logging.vmodule[%d]: Invalid value: %s: Must be <= 2147483647" $index (toJson $item.verbosity)) -}}
  {{- end -}}
{{- end -}}
{{- if not $alpha -}}
  {{- range $name := list "text" "json" -}}
    {{- $options := index ($logging.options | default dict) $name | default dict -}}
    {{- if regexMatch "^[+-]?[0-9.]*[1-9]" ($options.infoBufferSize | toString) -}}
      {{- $broken = append $broken (printf "logging.options.%s.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled" $name) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- include "kube-ipvs.failFor" (list "initialize logging" $broken) -}}

{{- /* Rules of single fields. */ -}}
{{- range $rule := $facts.rules -}}
  {{- $value := include "kube-ipvs.at" (list $config $rule.path) | fromJson | dig "value" nil -}}
  {{- if and (kindIs "invalid" $value | not) (eq ($rule.mode | default $mode) $mode) -}}
    {{- $given := true -}}
    {{- $number := 0.0 -}}
    {{- $shown := toJson $value -}}
    {{- if hasKey $durations $rule.path -}}
      {{- $number = (get $durations $rule.path).Nanoseconds | float64 -}}
      {{- $shown = get $durations $rule.path | printf "%s" | quote -}}
    {{- else if has $rule.kind (list "int32" "nonZeroInt32") -}}
      {{- $number = float64 $value -}}
      {{- $given = or (ne $rule.kind "nonZeroInt32") (ne $number 0.0) -}}
    {{- else -}}
      {{- $given = ne (toString $value) "" -}}
    {{- end -}}
    {{- /* Zero and empty texts mean the default, where the kind of the field says so. */ -}}
    {{- if and (eq $rule.kind "duration") (eq $number 0.0) -}}
      {{- $given = false -}}
    {{- end -}}
    {{- $reason := "" -}}
    {{- if not $given -}}
    {{- else if eq $rule.rule "notNegative" -}}
      {{- if lt $number 0.0 -}}{{- $reason = "must be greater than or equal to 0" -}}{{- end -}}
    {{- else if eq $rule.rule "positive" -}}
      {{- if le $number 0.0 -}}{{- $reason = "must be greater than 0" -}}{{- end -}}
    {{- else if eq $rule.rule "range" -}}
      {{- if or (lt $number (index $rule.range 0)) (gt $number (index $rule.range 1)) -}}
        {{- $reason = printf "must be within the range [%v, %v]" (index $rule.range 0) (index $rule.range 1) -}}
      {{- end -}}
    {{- else if eq $rule.rule "address" -}}
      {{- if not (regexMatch $facts.patterns.address $value) -}}{{- $reason = "not a valid textual representation of an IP address" -}}{{- end -}}
    {{- else if eq $rule.rule "socketPath" -}}
      {{- if not (regexMatch $facts.patterns.socketPath $value) -}}{{- $reason = "must be an absolute path of at most 107 printable ASCII characters without spaces, or empty" -}}{{- end -}}
    {{- else if eq $rule.rule "words" -}}
      {{- if not (has $value $rule.words) -}}
        {{- $broken = append $broken (printf "KubeProxyConfiguration.%s: Unsupported value: %q: supported values: %s" $rule.name $value (include "kube-ipvs.quoted" $rule.words)) -}}
      {{- end -}}
    {{- else if eq $rule.rule "cidrs" -}}
      {{- range $index, $cidr := $value -}}
        {{- if not (regexMatch $facts.patterns.cidr ($cidr | default "")) -}}
          {{- $broken = append $broken (printf "KubeProxyConfiguration.%s[%d]: Invalid value: %q: must be a valid CIDR" $rule.name $index ($cidr | default "")) -}}
        {{- end -}}
      {{- end -}}
    {{- else if and (eq $rule.rule "addressPort") (not (regexMatch $facts.patterns.address $value)) -}}
      {{- if not (regexMatch $facts.patterns.hostPort $value) -}}
        {{- $reason = "must be IP:port" -}}
      {{- else -}}
        {{- $host := regexReplaceAll $facts.patterns.hostPort $value "${1}" | trimPrefix "[" | trimSuffix "]" -}}
        {{- $port := regexReplaceAll $facts.patterns.hostPort $value "${2}" -}}
        {{- if not (regexMatch $facts.patterns.address $host) -}}
          {{- $broken = append $broken (printf "KubeProxyConfiguration.%s: Invalid value: %q: must be a valid IP" $rule.name $host) -}}
        {{- end -}}
        {{- if not (and (regexMatch "^[+-]?[0-9]{1,18}$" $port) (ge (atoi (trimPrefix "+" $port)) 1) (le (atoi (trimPrefix "+" $port)) 65535)) -}}
          {{- $broken = append $broken (printf "KubeProxyConfiguration.%s: Invalid value: %q: must be a valid port" $rule.name $port) -}}
        {{- end -}}
      {{- end -}}
    {{- end -}}
    {{- if $reason -}}
      {{- $broken = append $broken (printf "KubeProxyConfiguration.%s: Invalid value: %s: %s" $rule.name $shown $reason) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}

{{- /* Rules of kube-proxy's words, and rules between fields. */ -}}
{{- /* The gate refuses ipvs mode, unless there is a block kubeIPVS, even an empty one. */ -}}
{{- $modes := list "iptables" "ipvs" "nftables" -}}
{{- if and (hasKey $gates "KubeProxyIPVS") (not (get $gates "KubeProxyIPVS")) (not (kindIs "map" (get $config "kubeIPVS"))) -}}
  {{- $modes = list "iptables" "nftables" -}}
{{- end -}}
{{- if not (has $mode $modes) -}}
  {{- $broken = append $broken (printf "KubeProxyConfiguration.Mode.ProxyMode: Invalid value: %q: must be %s or blank (blank means the best-available proxy [currently iptables])" $mode (join ", " $modes)) -}}
{{- end -}}
{{- $block := eq $mode "ipvs" | ternary "ipvs" "iptables" -}}
{{- $longest := (mustDateModify "30s" $epoch).Sub $epoch -}}
{{- $shortest := (mustDateModify (eq $mode "ipvs" | ternary "0s" "1s") $epoch).Sub $epoch -}}
{{- with get $durations (printf "%s.syncPeriod" $block) -}}{{- $longest = . -}}{{- end -}}
{{- with get $durations (printf "%s.minSyncPeriod" $block) -}}{{- $shortest = . -}}{{- end -}}
{{- if lt $longest $shortest -}}
  {{- $broken = append $broken (printf "KubeProxyConfiguration.SyncPeriod: Invalid value: %q: must be greater than or equal to KubeProxyConfiguration.MinSyncPeriod" (printf "%s" $shortest)) -}}
{{- end -}}
{{- $seen := list -}}
{{- range $index, $given := $config.nodePortAddresses -}}
  {{- $address := $given | default "" -}}
  {{- if has $address (list "primary" "localhost" "all") -}}
    {{- if has $address $seen -}}
      {{- $broken = append $broken (printf "KubeProxyConfiguration.NodePortAddresses[%d]: Duplicate value: %q" $index $address) -}}
    {{- end -}}
    {{- $seen = append $seen $address -}}
  {{- else if not (regexMatch $facts.patterns.cidr $address) -}}
    {{- $broken = append $broken (printf "KubeProxyConfiguration.NodePortAddresses[%d]: Invalid value: %q: must be a valid CIDR or one of the keywords 'primary', 'localhost', 'all'" $index $address) -}}
  {{- end -}}
{{- end -}}
{{- $release := $config.showHiddenMetricsForVersion | default "" -}}
{{- if not (regexMatch $facts.patterns.release $release) -}}
  {{- $broken = append $broken (printf $facts.texts.release $release $release) -}}
{{- end -}}
{{- $local := $config.detectLocalMode | default "ClusterCIDR" -}}
{{- $detect := $config.detectLocal | default dict -}}
{{- if and (eq $local "ClusterCIDR") $config.clusterCIDR -}}
  {{- $cidrs := splitList "," $config.clusterCIDR -}}
  {{- $wrong := list -}}
  {{- $families := list -}}
  {{- range $index, $cidr := $cidrs -}}
    {{- $families = append $families (contains ":" $cidr) | uniq -}}
    {{- if not (regexMatch $facts.patterns.cidr $cidr) -}}
      {{- $wrong = append $wrong (printf "KubeProxyConfiguration.DetectLocalConfiguration.ClusterCIDRs[%d]: Invalid value: %q: must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)" $index $cidr) -}}
    {{- end -}}
  {{- end -}}
  {{- if or (gt (len $cidrs) 2) (and (not $wrong) (ne (len $families) (len $cidrs))) -}}
    {{- $wrong = list (printf "KubeProxyConfiguration.DetectLocalConfiguration.ClusterCIDRs: Invalid value: %s: must be a either a single CIDR or dual-stack pair of CIDRs (e.g. [10.100.0.0/16, fde4:8dba:82e1::/48]" (toJson $cidrs)) -}}
  {{- end -}}
  {{- $broken = concat $broken $wrong -}}
{{- else if and (eq $local "BridgeInterface") (not $detect.bridgeInterface) -}}
  {{- $broken = append $broken "KubeProxyConfiguration.DetectLocalConfiguration.InterfaceName: Invalid value: \"\": must not be empty" -}}
{{- else if and (eq $local "InterfaceNamePrefix") (not $detect.interfaceNamePrefix) -}}
  {{- $broken = append $broken "KubeProxyConfiguration.DetectLocalConfiguration.InterfacePrefix: Invalid value: \"\": must not be empty" -}}
{{- else if not (has $local (list "ClusterCIDR" "NodeCIDR" "BridgeInterface" "InterfaceNamePrefix")) -}}
  {{- $broken = append $broken (printf "KubeProxyConfiguration.DetectLocalMode: Unsupported value: %q: supported values: %s" $local (include "kube-ipvs.quoted" $facts.localModes)) -}}
{{- end -}}
{{- include "kube-ipvs.failFor" (list "failed validate" $broken) -}}
{{- if eq $mode "nftables" -}}
  {{- fail "kube-ipvs has the modes ipvs and iptables, not nftables: set one of them, or run kube-proxy itself for nftables" -}}
{{- end -}}
{{- end -}}

{{/* {"value": what the configuration has at a path}: (list CONFIG PATH). */}}
{{- define "kube-ipvs.at" -}}
{{- $value := index . 0 -}}
{{- range splitList "." (index . 1) -}}
  {{- $value = kindIs "map" $value | ternary $value dict -}}
  {{- $value = index $value . -}}
{{- end -}}
{{- dict "value" $value | toJson -}}
{{- end -}}

{{/* Fails for a text that Go's time.ParseDuration refuses, in its words: (list PATH TEXT). */}}
{{- define "kube-ipvs.checkDuration" -}}
{{- $text := index . 1 -}}
{{- $rest := regexReplaceAll "^[-+]" $text "" -}}
{{- $error := eq $rest "" | ternary (printf "time: invalid duration %q" $text) "" -}}
{{- range ne $rest "0" | ternary (regexFindAll "[0-9]*[.]?[0-9]*[^0-9.]*" $rest -1) list -}}
  {{- $number := regexFind "^[0-9.]*" . -}}
  {{- $unit := trimPrefix $number . -}}
  {{- if and (eq $error "") (ne . "") -}}
    {{- if not (regexMatch "[0-9]" $number) -}}
      {{- $error = printf "time: invalid duration %q" $text -}}
    {{- else if eq $unit "" -}}
      {{- $error = printf "time: missing unit in duration %q" $text -}}
    {{- else if not (has $unit (list "ns" "us" "µs" "μs" "ms" "s" "m" "h")) -}}
      {{- $error = printf "time: unknown unit %q in duration %q" $unit $text -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if $error -}}
  {{- fail (printf "failed complete: failed to decode: %s: %s" (index . 0) $error) -}}
{{- end -}}
{{- end -}}

{{/* Fails with all texts, if there are any, as the program joins them: (list STAGE TEXTS). */}}
{{- define "kube-ipvs.failFor" -}}
{{- $texts := index . 1 | uniq -}}
{{- if eq (len $texts) 1 -}}
  {{- fail (printf "%s: %s" (index . 0) (first $texts)) -}}
{{- else if $texts -}}
  {{- fail (printf "%s: [%s]" (index . 0) (join ", " $texts)) -}}
{{- end -}}
{{- end -}}

{{/* "a", "b" */}}
{{- define "kube-ipvs.quoted" -}}
{{- $quoted := list -}}
{{- range . -}}{{- $quoted = append $quoted (quote .) -}}{{- end -}}
{{- join ", " $quoted -}}
{{- end -}}
