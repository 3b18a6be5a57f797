/**
 * Checks of settings below /proc/sys: those that a start writes, those that it never writes, and
 * files that undo them.
 */
import { IPV6_OFF, ipvsSysctls } from '../../node/kernel-settings.ts'
import type { NodeFacts } from '../facts.ts'
import { type Check, type CheckResult, FINE, type Finding, found, valueOr, when } from '../finding.ts'
import { quote } from '../../values/quote.ts'
import { ownMember } from '../../values/own-member.ts'

const SYSCTLS = '/proc/sys/'
const FILE_NAME = '99-kube-ipvs.conf'
const FILE = `/etc/sysctl.d/${FILE_NAME}`
const FORWARDING6 = 'net/ipv6/conf/all/forwarding'

/** `net.ipv4.ip_forward` */
const dotted = (name: string): string => name.replaceAll('/', '.')

/** Sets it now and at every boot. */
function setting(name: string, value: number): readonly string[] {
  const line = `${dotted(name)} = ${value}`
  return [`sysctl -w ${line.replaceAll(' ', '')}`, `# ${FILE}`, line]
}

/** A node that forwards IPv6 ignores router advertisements without this. */
const ACCEPT_ADVERTISEMENTS: readonly string[] = [
  '# only if the node gets its IPv6 address or route from router advertisements',
  'net.ipv6.conf.all.accept_ra = 2',
]

/** Sets it at every boot although another file sets it otherwise. sysctl.d(5) goes by name, with sysctl.conf last. */
function overruling(file: string, name: string, value: number): readonly string[] {
  const [, line = ''] = setting(name, value).slice(1)
  const isBehind = file.includes('/sysctl.d/') && file.slice(file.lastIndexOf('/') + 1) < FILE_NAME
  const place = isBehind ? `# ${FILE}` : `# ${quote(file)}, in place of its line: a file of sysctl.d comes before it`
  return [place, line, ...(name === FORWARDING6 ? ACCEPT_ADVERTISEMENTS : [])]
}

/** False: the node has virtual servers, and none of them is of IPv6. */
const mayServeIpv6 = ({ configuration, ipvs }: NodeFacts): boolean => {
  const state = configuration.mode === 'ipvs' ? valueOr(ipvs, null) : null
  return state === null || state.virtualServers === 0 || state.ipv6Servers > 0
}

/** What is wrong while a written setting has another value. */
const EFFECTS: Readonly<Record<string, readonly [effect: string, severity: 'error' | 'warning']>> = {
  'net/ipv4/ip_forward': ['The node forwards no packet to pods.', 'error'],
  'net/ipv4/vs/conntrack': [
    'Connections through IPVS are not masqueraded; answers to clients outside get lost.',
    'error',
  ],
  'net/ipv4/vs/conn_reuse_mode': ['A connection that reuses a port waits a second.', 'warning'],
  'net/ipv4/vs/expire_nodest_conn': ['Connections to a removed endpoint hang until they time out.', 'warning'],
  'net/ipv4/vs/expire_quiescent_template': ['Clients with session affinity stay on a draining endpoint.', 'warning'],
  'net/ipv4/conf/all/arp_ignore': ['This node answers ARP for load-balancer addresses of other nodes.', 'error'],
  'net/ipv4/conf/all/arp_announce': ['This node announces addresses of Services by ARP.', 'error'],
}

/** The settings of ipvs mode that the configuration asks for, by the name below /proc/sys. */
function wanted({ configuration, kernel }: NodeFacts): readonly (readonly [name: string, value: number])[] {
  if (configuration.mode !== 'ipvs') return []
  return ipvsSysctls(configuration.strictArp, kernel.release).map(({ path, value }) => [
    path.slice(SYSCTLS.length),
    value,
  ])
}

function written(facts: NodeFacts): CheckResult {
  const findings: Finding[] = []
  for (const [name, value] of wanted(facts)) {
    const now = facts.settings[name]
    if (now === undefined || now === value) continue
    const [effect, severity] = ownMember(EFFECTS, name) ?? ['The setting differs from what ipvs mode needs.', 'warning']
    const isRunning = facts.runningMode === 'ipvs'
    findings.push(
      isRunning
        ? {
            severity,
            what: `${dotted(name)} is ${now} instead of ${value}, and the proxy that runs writes it only at its start.`,
            effect,
            remedy: setting(name, value),
          }
        : {
            severity: name === 'net/ipv4/ip_forward' ? 'warning' : 'note',
            what: `${dotted(name)} is ${now}; a start sets it to ${value}.`,
            effect: `Until then: ${effect}`,
            remedy: setting(name, value),
          },
    )
  }
  if (facts.netAdmin)
    for (const { what, effect } of valueOr(facts.lacks, []))
      if (what.startsWith('sysctl '))
        findings.push({
          severity: 'warning',
          what: `A start cannot write ${dotted(what.slice('sysctl '.length))}.`,
          effect: `${effect}.`,
          remedy: ['# let "kube-ipvs --init-only" write the settings, in a privileged init container or on the host'],
        })
  return found(...findings)
}

/**
 * The last line for a setting counts, as in sysctl.d(5): the caller gives the lines in the order in
 * which they apply.
 */
function undone(facts: NodeFacts): CheckResult {
  const wantedValues = new Map(wanted(facts))
  if (facts.kernel.hasIpv6 && mayServeIpv6(facts)) wantedValues.set(FORWARDING6, 1)
  const last = new Map(facts.sysctlLines.map((line) => [line.name, line]))
  const findings = [...last.values()].flatMap(({ name, value, file }): Finding[] => {
    const right = wantedValues.get(name)
    if (right === undefined || Number(value) === right) return []
    return [
      {
        severity: 'warning',
        what: `${quote(file)} sets ${dotted(name)} to ${quote(value)} instead of ${right}.`,
        effect: 'At the next boot, and with "sysctl --system" while the proxy runs, the setting changes back.',
        remedy: overruling(file, name, right),
      },
    ]
  })
  return found(...findings)
}

function ipv6Forwarding(facts: NodeFacts): CheckResult {
  const { settings, kernel, interfaces } = facts
  const name = FORWARDING6
  if (!kernel.hasIpv6 || settings[name] !== 0 || !mayServeIpv6(facts)) return FINE
  const hasAddress = valueOr(interfaces, []).some(
    ({ name: link, addresses }) =>
      link !== 'lo' && addresses.some((one) => one.includes(':') && !/^fe[89ab]/i.test(one)),
  )
  return found({
    severity: hasAddress ? 'warning' : 'note',
    what: `${dotted(name)} is 0${hasAddress ? ', and the node has IPv6 addresses' : ''}.`,
    effect:
      'Connections from outside to IPv6 addresses of Services time out. kube-ipvs never sets it, because the node would no longer accept router advertisements.',
    remedy: [...setting(name, 1), ...ACCEPT_ADVERTISEMENTS],
  })
}

/**
 * IPv6 switched off on the device that makes the node answer for virtual IPs, or for devices to
 * come. Only IPv6 Services need it there: that there are any is known from the daemon that could
 * not serve them.
 */
function ipv6OfDevices({ settings, kernel, configuration, daemon }: NodeFacts): CheckResult {
  if (configuration.mode !== 'ipvs' || !kernel.hasIpv6) return FINE
  const usesRoutes = configuration.virtualAddresses === 'routes'
  const device = usesRoutes ? 'lo' : 'kube-ipvs0'
  const name = `net/ipv6/conf/${device}/disable_ipv6`
  const now = settings[name] ?? (usesRoutes ? 0 : settings['net/ipv6/conf/default/disable_ipv6'])
  if (now !== 1) return FINE
  const isMissed = valueOr(daemon, null)?.problems.some(({ code }) => code === IPV6_OFF) === true
  if (!isMissed && !usesRoutes)
    return found({
      severity: 'note',
      what: 'New devices have IPv6 switched off, and so has kube-ipvs0.',
      effect: 'The proxy switches it on there with the first IPv6 Service, if it may write settings.',
      remedy: [WRITE_BEFORE],
    })
  return found({
    severity: isMissed ? 'error' : 'warning',
    what: `${dotted(name)} is 1${usesRoutes ? '' : ', and the proxy that runs cannot write it'}.`,
    effect: 'The node does not answer for IPv6 addresses of Services.',
    remedy: usesRoutes ? setting(name, 0) : [...setting(name, 0), WRITE_BEFORE],
  })
}

const WRITE_BEFORE =
  '# or let "kube-ipvs --init-only" write it, in a privileged init container or on the host: it makes kube-ipvs0 for that'

/** Bridges of network plug-ins, to which pods of one node are connected. */
const POD_BRIDGE = /^(cni|cbr|kube-bridge|docker|weave|nodelocaldns)/
/** Links of pods that are routed: then a bridge of Docker has containers, and no pods. */
const ROUTED_PODS = /^(cali|cilium_|lxc)/

function bridgeNetfilter(facts: NodeFacts): CheckResult {
  const { settings, interfaces, kernel } = facts
  return when(interfaces, (links) => {
    // A bridge to which nothing is connected, such as the docker0 of an idle Docker, is down.
    const isRouted = links.some(({ name }) => ROUTED_PODS.test(name))
    const bridge = links.find(
      ({ name, kind, operState }) =>
        kind === 'bridge' && POD_BRIDGE.test(name) && operState !== 'down' && !(isRouted && name.startsWith('docker')),
    )
    if (bridge === undefined) return FINE
    const names = [
      'net/bridge/bridge-nf-call-iptables',
      ...(kernel.hasIpv6 && mayServeIpv6(facts) ? ['net/bridge/bridge-nf-call-ip6tables'] : []),
    ]
    const wrong = names.filter((name) => settings[name] !== 1)
    if (wrong.length === 0) return FINE
    const isMissing = wrong.every((name) => settings[name] === undefined)
    const state = isMissing ? 'br_netfilter is not loaded' : `${wrong.map(dotted).join(' and ')} is 0`
    return found({
      severity: 'error',
      what: `Pods are connected to the bridge ${quote(bridge.name)}, and ${state}.`,
      effect:
        'A pod that reaches another pod of this node through a Service gets the answer from an address that it does not expect, so the connection fails.',
      remedy: [
        ...(isMissing ? ['modprobe br_netfilter', '# /etc/modules-load.d/kube-ipvs.conf', 'br_netfilter'] : []),
        ...wrong.flatMap((name) => setting(name, 1)),
      ],
    })
  })
}

/** Interfaces of pods and those that only this host uses. */
const LOCAL_KINDS = new Set(['veth', 'dummy', 'bridge', 'vxlan', 'ipip', 'sit', 'tun', 'wireguard', 'geneve', 'nlmon'])
const POD_LINK = /^(cali|lxc|cilium|veth|lo$|kube-ipvs0$|docker|cni|flannel|tunl|wg|cbr)/

function reversePath({ settings, interfaces }: NodeFacts): CheckResult {
  return when(interfaces, (links) => {
    const all = settings['net/ipv4/conf/all/rp_filter'] ?? 0
    // The kernel uses the larger of the two values (ip-sysctl).
    const strict = links.filter(({ rpFilter }) => Math.max(all, rpFilter ?? 0) === 1)
    const outside = links.filter(
      ({ name, kind, isUp, addresses }) =>
        isUp && !LOCAL_KINDS.has(kind) && !POD_LINK.test(name) && addresses.some((one) => one.includes('.')),
    )
    const affected = outside.filter((link) => strict.includes(link))
    const findings: Finding[] = []
    if (outside.length > 1 && affected.length > 0)
      findings.push({
        severity: 'warning',
        what: `The reverse-path filter is strict on ${affected.map(({ name }) => quote(name)).join(', ')}, and the node has ${outside.length} outer interfaces.`,
        effect:
          'A packet for a Service that arrives by another interface than its answer would leave by is dropped without a sign.',
        remedy: affected.flatMap(({ name }) => [
          `sysctl -w ${shellSysctl(name)}=2`,
          `# ${FILE}`,
          `${shellSysctl(name)} = 2`,
        ]),
      })
    const ofCilium = strict.filter(({ name }) => /^(lxc|cilium_)/.test(name))
    if (ofCilium.length > 0)
      findings.push({
        severity: 'warning',
        what: `The reverse-path filter is strict on ${ofCilium.length} interfaces of Cilium.`,
        effect: 'Cilium routes packets past the routing table, so the filter drops them.',
        remedy: [
          '# /etc/sysctl.d/99-zzz-override_cilium.conf',
          'net.ipv4.conf.lxc*.rp_filter = 0',
          'net.ipv4.conf.all.rp_filter = 0',
        ],
      })
    return found(...findings)
  })
}

/** Dots of an interface's name are slashes in sysctl(8): `net.ipv4.conf.eth0/100.rp_filter`. */
const shellSysctl = (link: string): string =>
  `net.ipv4.conf.${link.replace(/[^\w.-]/g, '?').replaceAll('.', '/')}.rp_filter`

export const SETTING_CHECKS: readonly Check[] = [
  {
    id: 'proxy-sysctls',
    group: 'settings',
    good: 'the settings of ipvs mode are as a start writes them',
    check: written,
  },
  { id: 'sysctl-files', group: 'settings', good: 'no file sets them otherwise', check: undone },
  { id: 'ipv6-forwarding', group: 'settings', good: 'IPv6 is forwarded, or not in use', check: ipv6Forwarding },
  {
    id: 'ipv6-of-devices',
    group: 'settings',
    good: 'devices have IPv6 where the node has it',
    check: ipv6OfDevices,
  },
  { id: 'bridge-netfilter', group: 'settings', good: 'bridged packets of pods pass the rules', check: bridgeNetfilter },
  { id: 'reverse-path-filter', group: 'settings', good: 'the reverse-path filter drops no answer', check: reversePath },
]
