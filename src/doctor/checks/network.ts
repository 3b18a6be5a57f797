/**
 * Checks of network plug-ins, of programs that announce load-balancer addresses, and of daemons
 * that manage interfaces.
 */
import type { NetworkFile, NodeFacts } from '../facts.ts'
import { amongProcesses, type Check, type CheckResult, FINE, type Finding, found, valueOr, when } from '../finding.ts'
import { quote } from '../../values/quote.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'
import { globMatches, LIST_BREAK } from '../network-file.ts'
import { processesOf } from './proxies.ts'

const hasLink = ({ interfaces }: NodeFacts, pattern: RegExp): boolean =>
  valueOr(interfaces, []).some(({ name }) => pattern.test(name))

/** Namespaces and names of DaemonSets whose images match. */
function daemonSets({ cluster }: NodeFacts, image: RegExp): readonly string[] {
  const known = valueOr(cluster, undefined)
  if (known === undefined) return []
  return valueOr(known.daemonSets, [])
    .filter(({ images, desired }) => desired > 0 && images.some((one) => image.test(one)))
    .map(({ namespace, name }) => `${namespace}/${name}`)
}

function strictArp(facts: NodeFacts): CheckResult {
  const { mode, strictArp: isStrict } = facts.configuration
  if (mode !== 'ipvs' || isStrict) return FINE
  const names = [
    ...(processesOf(facts, 'speaker').length > 0 || daemonSets(facts, /metallb\/speaker/).length > 0
      ? ['MetalLB']
      : []),
    ...(processesOf(facts, 'kube-vip').length > 0 || daemonSets(facts, /kube-vip/).length > 0 ? ['kube-vip'] : []),
  ]
  if (names.length === 0) return amongProcesses(facts, FINE)
  return found({
    severity: 'error',
    what: `${names.join(' and ')} is here and ipvs.strictARP is false.`,
    effect:
      'Every node answers ARP for every load-balancer address, so clients reach nodes that do not announce it. This concerns announcements by ARP (layer 2), not BGP.',
    remedy: ['# KubeProxyConfiguration; a start writes arp_ignore and arp_announce', 'ipvs:', '  strictARP: true'],
  })
}

function calico(facts: NodeFacts): CheckResult {
  const { cluster, interfaces, configuration } = facts
  const isHere = processesOf(facts, 'calico-node').length > 0 || hasLink(facts, /^cali/)
  if (!isHere && daemonSets(facts, /calico\/node/).length === 0) return amongProcesses(facts, FINE)
  const known = valueOr(cluster, undefined)
  const isBpf = (known !== undefined && valueOr(known.calicoBpf, null) === true) || hasLink(facts, /^bpfin\.cali$/)
  if (isBpf)
    return found({
      severity: 'error',
      what: 'The eBPF data plane of Calico is on.',
      effect: 'Calico answers for Services itself, before IPVS sees a packet.',
      remedy: [
        '# either leave Services to Calico and remove kube-ipvs from this cluster, or switch the data plane (it interrupts traffic):',
        `kubectl patch felixconfiguration default --type merge -p '{"spec":{"bpfEnabled":false}}'`,
      ],
    })
  const hasDevice = 'value' in interfaces && interfaces.value.some(({ name }) => name === SERVICE_DEVICE)
  if (configuration.mode !== 'ipvs' || hasDevice || 'unseen' in interfaces) return FINE
  return found({
    severity: 'note',
    what: `Calico runs here, and ${SERVICE_DEVICE} does not exist yet.`,
    effect: `Felix finds out by ${SERVICE_DEVICE} that Services use IPVS, and restarts once when the first start of kube-ipvs makes it. Policies stay in force.`,
    remedy: [],
  })
}

/** Values of kubeProxyReplacement of Cilium, old and new, that leave Services to another proxy. */
const NOT_REPLACED = new Set(['false', 'disabled'])

function cilium(facts: NodeFacts): CheckResult {
  const isHere = processesOf(facts, 'cilium-agent').length > 0 || hasLink(facts, /^cilium_/)
  if (!isHere && daemonSets(facts, /cilium\/cilium/).length === 0) return amongProcesses(facts, FINE)
  const known = valueOr(facts.cluster, undefined)
  const said = facts.ciliumReplacement || (known === undefined ? '' : (valueOr(known.ciliumReplacement, null) ?? ''))
  if (NOT_REPLACED.has(said.toLowerCase())) return FINE
  const remedy = [
    '# either leave Services to Cilium and remove kube-ipvs from this cluster, or:',
    'helm upgrade cilium cilium/cilium --namespace kube-system --reuse-values --set kubeProxyReplacement=false',
    'kubectl -n kube-system rollout restart daemonset cilium',
  ]
  const effect = 'With kubeProxyReplacement Cilium answers for Services in eBPF, before IPVS sees a packet.'
  if (said === '')
    return found({
      severity: 'warning',
      what: 'Cilium runs here, and whether it replaces kube-proxy is not known.',
      effect,
      remedy: ['kubectl -n kube-system get configmap cilium-config -o yaml | grep kube-proxy-replacement', ...remedy],
    })
  return found({ severity: 'error', what: `Cilium replaces kube-proxy (${quote(said)}).`, effect, remedy })
}

/**
 * Whether a value of unmanaged-devices (NetworkManager.conf(5), device list) contains kube-ipvs0.
 * `except:` has precedence.
 */
export function isUnmanaged(value: string): boolean {
  const specs = value.split(LIST_BREAK).filter((spec) => spec !== '')
  const matches = (spec: string): boolean => {
    if (spec === '*' || spec === 'type:dummy') return true
    if (spec.startsWith('interface-name:=')) return spec.slice('interface-name:='.length) === SERVICE_DEVICE
    if (spec.startsWith('interface-name:')) return globMatches(spec.slice('interface-name:'.length), SERVICE_DEVICE)
    return false
  }
  const except = specs.filter((spec) => spec.startsWith('except:')).map((spec) => spec.slice('except:'.length))
  return !except.some(matches) && specs.some(matches)
}

/** Programs that announce routes to routers, by the name of their process. */
const ANNOUNCERS = [
  ['bird', 'BIRD'],
  ['zebra', 'FRR'],
  ['gobgpd', 'GoBGP'],
] as const

const usesRoutes = ({ configuration }: NodeFacts): boolean =>
  configuration.mode === 'ipvs' && configuration.virtualAddresses === 'routes'

/** With local routes kube-ipvs0 has no addresses: what relies on them, and what changes for it. */
function virtualAddresses(facts: NodeFacts): CheckResult {
  if (!usesRoutes(facts)) return FINE
  const findings: Finding[] = []
  const isCalicoHere = processesOf(facts, 'calico-node').length > 0 || daemonSets(facts, /calico\/node/).length > 0
  // Calico runs its own BIRD, which announces the ranges of Services and no addresses of kube-ipvs0.
  const announcers = ANNOUNCERS.flatMap(([program, name]) =>
    processesOf(facts, program).length === 0 || (program === 'bird' && isCalicoHere) ? [] : [name],
  )
  if (announcers.length > 0)
    findings.push({
      severity: 'warning',
      what: `${announcers.join(' and ')} ${announcers.length === 1 ? 'runs' : 'run'} here, and virtual IPs are local routes: ${SERVICE_DEVICE} has no addresses.`,
      effect: `A configuration that announces the addresses of ${SERVICE_DEVICE} to routers (protocol direct of BIRD, redistribute connected of FRR) announces no Service.`,
      remedy: [
        '# either announce the ranges of Services by static routes of that program, or, in the KubeProxyConfiguration:',
        'kubeIPVS:',
        '  virtualAddresses: addresses',
      ],
    })
  if (isCalicoHere)
    findings.push({
      severity: 'note',
      what: `Calico runs here, and virtual IPs are local routes: ${SERVICE_DEVICE} has no addresses.`,
      effect: `Felix finds ipvs mode as before, because ${SERVICE_DEVICE} exists; what excludes it in filters of BIRD and in the detection of the node's address has nothing to exclude. Connections of the node itself to Services have the node's address as their source, so policies see the node instead of the virtual IP.`,
      remedy: [],
    })
  if (processesOf(facts, 'speaker').length > 0 || daemonSets(facts, /metallb\/speaker/).length > 0)
    findings.push({
      severity: 'note',
      what: `MetalLB runs here, and virtual IPs are local routes: ${SERVICE_DEVICE} has no addresses.`,
      effect: `MetalLB announces as before; its exclusion of ${SERVICE_DEVICE} (metallb-excludel2) has nothing to exclude. The kernel answers ARP for local routes, too, so ipvs.strictARP is needed as with addresses.`,
      remedy: [],
    })
  return amongProcesses(facts, found(...findings))
}

function networkManager(facts: NodeFacts): CheckResult {
  // Without addresses the device has nothing to lose.
  if (usesRoutes(facts)) return FINE
  if (processesOf(facts, 'NetworkManager').length === 0 || isUnmanaged(facts.unmanagedDevices.join(';')))
    return amongProcesses(facts, FINE)
  return found({
    severity: 'warning',
    what: `NetworkManager runs, and its configuration does not leave ${SERVICE_DEVICE} alone.`,
    effect: `It may remove addresses of Services from ${SERVICE_DEVICE}, or take it down, when it restarts; kube-ipvs repairs that, but connections fail meanwhile.`,
    remedy: [
      '# /etc/NetworkManager/conf.d/zz-kube-ipvs.conf: a later file with unmanaged-devices= would undo it',
      '[keyfile]',
      `unmanaged-devices+=interface-name:${SERVICE_DEVICE}`,
      '# then',
      'nmcli general reload',
    ],
  })
}

const UNMANAGED_FILE = [
  '# /etc/systemd/network/05-kube-ipvs.network',
  '[Match]',
  `Name=${SERVICE_DEVICE}`,
  '[Link]',
  'Unmanaged=yes',
  '# then',
  'networkctl reload',
]

function networkd(facts: NodeFacts): CheckResult {
  if (processesOf(facts, 'systemd-networkd').length === 0) return amongProcesses(facts, FINE)
  const { files, loopbackFiles, managesForeignRules, managesForeignRoutes, deviceState } = facts.networkd
  const findings: Finding[] = []
  // The first file that matches, by name, decides (systemd.network(5)).
  const first: NetworkFile | undefined = files[0]
  const isManaged = first !== undefined ? !first.isUnmanaged : !['', 'unmanaged', 'initialized'].includes(deviceState)
  const [ofLoopback] = loopbackFiles
  if (usesRoutes(facts) && managesForeignRoutes && ofLoopback?.isUnmanaged === false)
    findings.push({
      severity: 'warning',
      what: `${quote(ofLoopback.file)} of systemd-networkd matches lo (${quote(ofLoopback.match)}), where virtual IPs are local routes.`,
      effect:
        'systemd-networkd may remove routes that it did not add (ManageForeignRoutes) when it configures lo; kube-ipvs repairs that, but connections fail meanwhile.',
      remedy: [
        '# /etc/systemd/networkd.conf.d/kube-ipvs.conf',
        '[Network]',
        'ManageForeignRoutes=no',
        '# then',
        'systemctl restart systemd-networkd',
      ],
    })
  if (isManaged && !usesRoutes(facts))
    findings.push({
      severity: 'error',
      what:
        first === undefined
          ? `systemd-networkd manages ${SERVICE_DEVICE} (${quote(deviceState)}).`
          : `${quote(first.file)} of systemd-networkd matches ${SERVICE_DEVICE} (${quote(first.match)}).`,
      effect: `systemd-networkd removes the addresses of Services from ${SERVICE_DEVICE} when it configures it.`,
      remedy: UNMANAGED_FILE,
    })
  if (managesForeignRules && hasLink(facts, /^(cali|cilium_|lxc)/))
    findings.push({
      severity: 'note',
      what: 'systemd-networkd removes routing rules that it did not add (ManageForeignRoutingPolicyRules).',
      effect: 'When it restarts, rules of the network plug-in are gone and pods lose their routes.',
      remedy: [
        '# /etc/systemd/networkd.conf.d/kube-ipvs.conf',
        '[Network]',
        'ManageForeignRoutingPolicyRules=no',
        'ManageForeignRoutes=no',
        '# then',
        'systemctl restart systemd-networkd',
      ],
    })
  return found(...findings)
}

function device({ interfaces, configuration }: NodeFacts): CheckResult {
  return when(interfaces, (links) => {
    const link = links.find(({ name }) => name === SERVICE_DEVICE)
    if (link === undefined || configuration.mode !== 'ipvs' || link.kind === 'dummy') return FINE
    return found({
      severity: 'warning',
      what: `${SERVICE_DEVICE} is of the kind ${quote(link.kind)}, not dummy.`,
      effect:
        'kube-ipvs uses it as it is, binds the addresses of Services there, and never deletes it, not even at a cleanup: another program has made it.',
      remedy: [
        '# find out who makes it; without it kube-ipvs makes one at once, and connections to Services fail for a moment',
        `ip link delete ${SERVICE_DEVICE}`,
      ],
    })
  })
}

export const NETWORK_CHECKS: readonly Check[] = [
  { id: 'strict-arp', group: 'network', good: 'strictARP fits MetalLB and kube-vip', check: strictArp },
  { id: 'calico', group: 'network', good: 'Calico leaves Services to the proxy', check: calico },
  { id: 'cilium', group: 'network', good: 'Cilium leaves Services to the proxy', check: cilium },
  {
    id: 'virtual-addresses',
    group: 'network',
    good: `nothing here relies on addresses of ${SERVICE_DEVICE} that it does not have`,
    check: virtualAddresses,
  },
  {
    id: 'network-manager',
    group: 'network',
    good: `NetworkManager leaves ${SERVICE_DEVICE} alone`,
    check: networkManager,
  },
  {
    id: 'systemd-networkd',
    group: 'network',
    good: `systemd-networkd leaves ${SERVICE_DEVICE} alone`,
    check: networkd,
  },
  {
    id: 'service-device',
    group: 'network',
    good: `${SERVICE_DEVICE} is a dummy device, or not there yet`,
    check: device,
  },
]
