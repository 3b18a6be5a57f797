/** Checks for other proxies on the node: running ones, what starts them again, and what they left. */
import type { ClusterFact, DaemonSetFact } from '../cluster-facts.ts'
import { AGENT, type NodeFacts, type ProcessFact, type Program } from '../facts.ts'
import { amongProcesses, type Check, type CheckResult, FINE, type Finding, found, valueOr, when } from '../finding.ts'
import { quote } from '../../values/quote.ts'

/**
 * Binds the DaemonSet of kubeadm to nodes with the label kube-ipvs/proxy=kube-proxy without
 * deleting it: without such a label to no node. It is the patch of docs/quick-start.md and
 * docs/migration.md, so that their way back fits.
 */
export const STOP_DAEMON_SET = `kubectl -n kube-system patch daemonset kube-proxy --type merge -p '{"spec":{"template":{"spec":{"nodeSelector":{"kube-ipvs/proxy":"kube-proxy"}}}}}'`
const TWO_PROXIES = 'Two proxies write the same virtual servers, sets and rules, and undo the changes of each other.'

export const processesOf = ({ processes }: NodeFacts, ...programs: readonly Program[]): readonly ProcessFact[] =>
  processes.filter(({ program }) => programs.includes(program))

const pidsOf = (processes: readonly ProcessFact[]): string =>
  `${processes.length === 1 ? 'process' : 'processes'} ${processes.map(({ pid }) => pid).join(', ')}`

function running(facts: NodeFacts): CheckResult {
  const proxies = processesOf(facts, 'kube-proxy')
  if (proxies.length > 0)
    return found({
      severity: 'error',
      what: `kube-proxy runs on this node (${pidsOf(proxies)}).`,
      effect: TWO_PROXIES,
      remedy: [STOP_DAEMON_SET],
    })
  if (facts.runningMode !== null && !facts.isOursRunning)
    return found({
      severity: 'error',
      what: `A proxy in ${quote(facts.runningMode)} mode that is not kube-ipvs answers at the metrics address.`,
      effect: TWO_PROXIES,
      remedy: ["ss -ltnp 'sport = :10249'", STOP_DAEMON_SET],
    })
  return amongProcesses(facts, FINE)
}

function embedded(facts: NodeFacts): CheckResult {
  const findings: Finding[] = []
  const { isDisabledInK3s } = facts.kubeProxyOrigins
  const k3s = isDisabledInK3s ? [] : processesOf(facts, 'k3s', 'rke2')
  const servers = k3s.filter(({ switches }) => switches.length === 0)
  const [server] = servers
  if (server !== undefined)
    findings.push({
      severity: 'warning',
      what: `${server.program} runs here (${pidsOf(servers)}), and nothing on this node disables its kube-proxy.`,
      effect: `${server.program} runs kube-proxy inside its own process, on its servers and agents. ${TWO_PROXIES}`,
      remedy: [
        `# /etc/rancher/${server.program}/config.yaml of every server; then restart the servers, and after them the agents`,
        'disable-kube-proxy: true',
      ],
    })
  // An agent has no such setting, and refuses to start with it.
  const agents = k3s.filter(({ switches }) => switches.includes(AGENT))
  const [agent] = agents
  if (agent !== undefined)
    findings.push({
      severity: 'note',
      what: `An agent of ${agent.program} runs here (${pidsOf(agents)}); its servers decide whether it runs kube-proxy.`,
      effect: `Without "disable-kube-proxy: true" on the servers it does. ${TWO_PROXIES}`,
      remedy: [],
    })
  const snaps = processesOf(facts, 'kubelite')
  if (snaps.length > 0)
    findings.push({
      severity: 'note',
      what: `kubelite of MicroK8s runs here (${pidsOf(snaps)}); doctor cannot read whether its kube-proxy is switched off.`,
      effect: `Otherwise kube-proxy runs inside its process. ${TWO_PROXIES}`,
      remedy: [],
    })
  const routers = processesOf(facts, 'kube-router').filter(
    ({ switches }) => !switches.includes('--run-service-proxy=false'),
  )
  if (routers.length > 0)
    findings.push({
      severity: 'error',
      what: `kube-router runs its service proxy on this node (${pidsOf(routers)}).`,
      effect: TWO_PROXIES,
      remedy: ['# one of the arguments of kube-router in its DaemonSet', '--run-service-proxy=false'],
    })
  return amongProcesses(facts, found(...findings))
}

function restored(facts: NodeFacts): CheckResult {
  const { kubeProxyOrigins, cluster, isOursRunning } = facts
  const { staticPods, isKubeadm } = kubeProxyOrigins
  // The image of kube-ipvs also runs in the DaemonSet of kubeadm, with the ConfigMap kube-proxy.
  const hasPodVolume = kubeProxyOrigins.hasPodVolume && !isOursRunning
  const findings: Finding[] = []
  for (const file of staticPods)
    findings.push({
      severity: 'error',
      what: `The static pod ${quote(file)} starts kube-proxy.`,
      effect: 'kubelet starts kube-proxy again whenever it ends.',
      remedy: STATIC_POD.test(file) ? [`mv -- ${file} /root/`] : [`# move that file out of ${STATIC_PODS}`],
    })
  const sets = when(cluster, ({ daemonSets }) => when(daemonSets, (all) => found(...daemonSetFindings(all, cluster))))
  findings.push(...sets.findings)
  if (hasPodVolume && !sets.findings.some(({ severity }) => severity === 'error'))
    findings.push({
      severity: 'error',
      what: 'kubelet has a volume with the ConfigMap kube-proxy for a pod of this node.',
      effect: 'The cluster starts kube-proxy again whenever it ends.',
      remedy: [STOP_DAEMON_SET],
    })
  if (isKubeadm)
    findings.push({
      severity: 'note',
      what: 'kubeadm made this node.',
      effect: '"kubeadm upgrade apply" and "kubeadm init phase addon" write the DaemonSet of kube-proxy again.',
      remedy: [
        'kubeadm upgrade apply VERSION --skip-phases=addon/kube-proxy',
        '# or for good, in the ClusterConfiguration (kubeadm.k8s.io/v1beta4) of: kubectl -n kube-system edit configmap kubeadm-config',
        'proxy:',
        '  disabled: true',
      ],
    })
  // What the cluster would start is not known where nobody may ask it.
  return sets.unseen === undefined ? found(...findings) : { findings, unseen: sets.unseen }
}

/**
 * The DaemonSets of kube-proxy: on this node, on others only, or on none. An image of ours under
 * that name is no kube-proxy.
 */
function daemonSetFindings(sets: readonly DaemonSetFact[], cluster: NodeFacts['cluster']): readonly Finding[] {
  return sets.flatMap(({ namespace, name, images, desired, selectsHere }): Finding[] => {
    if (name !== 'kube-proxy' || images.some(isOurs)) return []
    const set = `The DaemonSet ${quote(`${namespace}/${name}`)} of kube-proxy`
    if (desired > 0 && selectsHere !== false)
      return [
        {
          severity: 'error',
          what: `${set} runs on nodes${modeOf(valueOr(cluster, undefined))}.`,
          effect: 'The cluster starts kube-proxy again whenever it ends.',
          remedy: [STOP_DAEMON_SET],
        },
      ]
    return [
      {
        severity: 'note',
        what: `${set} is there and runs ${desired > 0 ? 'on other nodes, not on this one' : 'on no node'}.`,
        effect:
          'It is the way back. A change of its node selector, or of labels of this Node, starts kube-proxy here again; "kubeadm upgrade" makes the former.',
        remedy: [],
      },
    ]
  })
}

/** The mode in the ConfigMap of kube-proxy, in words; without one its default is iptables. */
function modeOf(cluster: ClusterFact | undefined): string {
  const mode = cluster === undefined ? null : valueOr(cluster.kubeProxyMode, null)
  return mode === null ? '' : `, in ${quote(mode || 'iptables')} mode`
}

const isOurs = (image: string): boolean => image.includes('kube-ipvs')

/** What a command of a remedy may name: a bundle could name any file and any table. */
const STATIC_PODS = '/etc/kubernetes/manifests'
const STATIC_POD = /^\/etc\/kubernetes\/manifests\/\w[\w.+-]*$/
const PROXY_TABLE = /^ip6? kube-proxy$/

/** Chains that kubelet makes, also where no proxy ever ran. */
const KUBELET_CHAINS = new Set(['KUBE-KUBELET-CANARY', 'KUBE-IPTABLES-HINT', 'KUBE-FIREWALL', 'KUBE-MARK-DROP'])

const proxyChains = (names: readonly string[]): readonly string[] =>
  names.filter((name) => !KUBELET_CHAINS.has(name.slice(name.indexOf(' ') + 1)))

function bothBackEnds({ rules, iptables }: NodeFacts): CheckResult {
  return when(rules, (all) => {
    const has = (backEnd: 'nft' | 'legacy'): boolean =>
      all.some((one) => one.backEnd === backEnd && (proxyChains(one.kubeChains).length > 0 || one.serviceChains > 0))
    if (!has('nft') || !has('legacy')) return FINE
    const inUse = valueOr(iptables, undefined)?.backEnd
    const other = inUse === 'nft' ? 'legacy' : 'nft'
    const clean = ['iptables', 'ip6tables'].map(
      (program) => `${program}-${other}-save | grep -v KUBE- | ${program}-${other}-restore`,
    )
    return found({
      severity: 'error',
      what: `Both back ends of iptables have chains of a proxy; ${inUse ?? 'none'} is in use.`,
      effect: `The rules in ${other} still apply to every packet, and no proxy updates them: connections go to endpoints that are gone, or are rejected.`,
      remedy: [
        '# either: everything of every proxy, in both back ends; stop the proxy first',
        'kube-ipvs cleanup --dry-run',
        'kube-ipvs cleanup',
        '# or only the back end that is not in use; kubelet makes its own chains again',
        ...clean,
      ],
    })
  })
}

function otherMode({ configuration, modesInKernel, rules, ipvs, runningMode }: NodeFacts): CheckResult {
  return when(modesInKernel, (modes) => {
    const findings: Finding[] = []
    const services = valueOr(rules, []).reduce((sum, { serviceChains }) => sum + serviceChains, 0)
    // A start removes them once it has written its own state.
    if (configuration.mode === 'ipvs' && modes.includes('iptables') && runningMode !== 'iptables')
      findings.push({
        severity: 'note',
        what: `Rules of iptables mode are in the kernel, with ${services} chains of Services.`,
        effect: 'They serve Services until ipvs mode has written its own state; then kube-ipvs removes them.',
        remedy: [],
      })
    const virtualServers = valueOr(ipvs, null)?.virtualServers ?? 0
    if (configuration.mode === 'iptables' && modes.includes('ipvs') && runningMode !== 'ipvs')
      findings.push({
        severity: 'note',
        what: `What ipvs mode wrote is in the kernel, and ${virtualServers} virtual servers.`,
        effect:
          'kube-ipvs removes it, and the virtual servers of Services, after iptables mode has written its own state.',
        remedy: [],
      })
    // Without the rules only ipvs mode shows itself.
    return findings.length === 0 && configuration.mode === 'ipvs' ? when(rules, () => FINE) : found(...findings)
  })
}

function nftablesProxy({ nftProxyTables, runningMode }: NodeFacts): CheckResult {
  return when(nftProxyTables, (tables) =>
    tables.length === 0
      ? FINE
      : found({
          severity: runningMode === 'nftables' ? 'error' : 'warning',
          what: `The tables of kube-proxy's nftables mode are there: ${tables.map(quote).join(', ')}.`,
          effect:
            'They answer for Services before any other rule, until kube-ipvs has completed its own state and removes them.',
          remedy: tables.filter((table) => PROXY_TABLE.test(table)).map((table) => `nft delete table ${table}`),
        }),
  )
}

function ipvsWriters(facts: NodeFacts): CheckResult {
  const writers = processesOf(facts, 'keepalived', 'loxilb').filter(
    ({ program }) => program !== 'keepalived' || facts.keepalivedServers !== false,
  )
  const { mode, excludeCidrs } = facts.configuration
  if (writers.length === 0 || mode !== 'ipvs' || excludeCidrs.length > 0) return amongProcesses(facts, FINE)
  return found({
    severity: 'warning',
    what: `${[...new Set(writers.map(({ program }) => program))].join(' and ')} runs on this node (${pidsOf(writers)}) and ipvs.excludeCIDRs is empty.`,
    effect:
      'In ipvs mode every virtual server outside excludeCIDRs belongs to the proxy: it removes those of other programs.',
    remedy: [
      '# KubeProxyConfiguration, with the addresses that the other program serves',
      'ipvs:',
      '  excludeCIDRs: ["192.0.2.10/32"]',
    ],
  })
}

export const PROXY_CHECKS: readonly Check[] = [
  { id: 'kube-proxy-running', group: 'proxies', good: 'kube-proxy does not run here', check: running },
  { id: 'embedded-proxy', group: 'proxies', good: 'no other program runs a service proxy', check: embedded },
  { id: 'kube-proxy-restored', group: 'proxies', good: 'nothing starts kube-proxy again', check: restored },
  {
    id: 'both-back-ends',
    group: 'proxies',
    good: 'one back end of iptables has chains of a proxy at most',
    check: bothBackEnds,
  },
  { id: 'other-mode', group: 'proxies', good: 'nothing of another mode is in the kernel', check: otherMode },
  { id: 'nftables-proxy', group: 'proxies', good: 'no table of nftables mode', check: nftablesProxy },
  { id: 'ipvs-writers', group: 'proxies', good: 'no other program writes virtual servers', check: ipvsWriters },
]
