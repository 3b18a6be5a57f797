/**
 * Flags as /flagz shows them: every flag of kube-proxy with the value it has, given or by default, and ours.
 * What could break: this is what the command line says, not what is in force; with --config the two differ.
 */
import { formatDuration } from '../config/duration.ts'
import { FLAGS, type Flag, type FlagValues } from './flags.ts'

/** Values of flags that are not given, as kube-proxy 1.36 prints them. */
const DEFAULTS: Readonly<Record<string, string>> = {
  'bind-address': '0.0.0.0',
  'bind-address-hard-fail': 'false',
  'boot-id-file': '/proc/sys/kernel/random/boot_id',
  cleanup: 'false',
  'cluster-cidr': '',
  config: '',
  'config-sync-period': '15m0s',
  'conntrack-max-per-core': '32768',
  'conntrack-min': '131072',
  'conntrack-tcp-be-liberal': 'false',
  'conntrack-tcp-timeout-close-wait': '1h0m0s',
  'conntrack-tcp-timeout-established': '24h0m0s',
  'conntrack-udp-timeout': '0s',
  'conntrack-udp-timeout-stream': '0s',
  'detect-local-mode': '',
  'feature-gates': '',
  'healthz-bind-address': '0.0.0.0:10256',
  'healthz-port': '10256',
  help: 'false',
  'hostname-override': '',
  'init-only': 'false',
  'iptables-localhost-nodeports': 'true',
  'iptables-masquerade-bit': '14',
  'iptables-min-sync-period': '1s',
  'iptables-sync-period': '30s',
  'ipvs-exclude-cidrs': '[]',
  'ipvs-min-sync-period': '1s',
  'ipvs-scheduler': '',
  'ipvs-strict-arp': 'false',
  'ipvs-sync-period': '30s',
  'ipvs-tcp-timeout': '0s',
  'ipvs-tcpfin-timeout': '0s',
  'ipvs-udp-timeout': '0s',
  'kube-api-burst': '10',
  'kube-api-content-type': 'application/vnd.kubernetes.protobuf',
  'kube-api-qps': '5',
  kubeconfig: '',
  'log-flush-frequency': '5s',
  'log-json-info-buffer-size': '0',
  'log-json-split-stream': 'false',
  'log-text-info-buffer-size': '0',
  'log-text-split-stream': 'false',
  'logging-format': 'text',
  'machine-id-file': '/etc/machine-id,/var/lib/dbus/machine-id',
  'masquerade-all': 'false',
  master: '',
  'metrics-bind-address': '127.0.0.1:10249',
  'metrics-port': '10249',
  'nodeport-addresses': '[]',
  'oom-score-adj': '-999',
  'pod-bridge-interface': '',
  'pod-interface-name-prefix': '',
  profiling: 'false',
  'proxy-mode': '',
  'show-hidden-metrics-for-version': '',
  v: '0',
  version: 'false',
  vmodule: '',
  'write-config-to': '',
}

/** Text by name, in the order of names. */
export function flagTexts(values: FlagValues): Readonly<Record<string, string>> {
  const texts = new Map(Object.entries(DEFAULTS))
  const given = new Map<string, unknown>(Object.entries(values))
  const flags: readonly [string, Flag][] = Object.entries(FLAGS)
  for (const [key, flag] of flags) {
    if (!flag.commands.includes('run')) continue
    const value = given.get(key)
    const text = value === undefined ? undefined : textOf(flag, value)
    texts.set(flag.name, text ?? texts.get(flag.name) ?? (flag.kind === 'boolean' ? 'false' : ''))
  }
  return Object.fromEntries([...texts].toSorted(([left], [right]) => (left < right ? -1 : 1)))
}

function textOf({ kind }: Flag, value: unknown): string {
  if (kind === 'duration' && typeof value === 'number') return formatDuration(value)
  if (Array.isArray(value))
    return value.every((item) => typeof item === 'string') ? `[${value.join(',')}]` : pairs(value)
  return typeof value === 'object' && value !== null ? pairs(Object.entries(value)) : String(value)
}

/** `a=1,b=2` of pairs and of objects with two fields. */
function pairs(items: readonly unknown[]): string {
  return items.map((item) => (Array.isArray(item) ? item : Object.values(Object(item))).join('=')).join(',')
}
