/**
 * Checks of what the running daemon says about itself: where `kube-ipvs status` does not call the
 * node fine, these do not either.
 */
import type { DaemonFact, NodeFacts, Program } from '../facts.ts'
import {
  type Check,
  type CheckResult,
  FINE,
  type Finding,
  type FindingSeverity,
  found,
  valueOr,
  when,
} from '../finding.ts'
import { nodeReasons, type ReasonedDaemon, type ReasonKind } from '../../inspect/node-reasons.ts'
import { printable, quote } from '../../values/quote.ts'
import { OLDER_BUNDLE } from '../seen.ts'

/** What a reason breaks, and where to look on. */
const REASONS: Readonly<Record<ReasonKind, readonly [severity: FindingSeverity, effect: string, ...remedy: string[]]>> =
  {
    unhealthy: [
      'error',
      '/healthz answers 503: load balancers that check it send this node no traffic, and changes of Services may not arrive.',
      'kube-ipvs status',
      '# and the log of the daemon, which says what it tries again and why',
    ],
    awaiting: [
      'warning',
      'Changes of Services do not reach the kernel before every list is there. This is normal for a moment after a start.',
      '# the log of the daemon says "Failed to watch" and why, when the API server does not answer',
    ],
    fallback: ['warning', 'Services are served in iptables mode: without schedulers, drains and counters of IPVS.'],
    'other-mode': [
      'warning',
      'A switch of the mode is under way, or cannot be made.',
      '# the log of the daemon says what it waits for',
    ],
    failed: [
      'error',
      'What could not be written is missing in the kernel, and the daemon tries it again.',
      '# the log of the daemon has each command with its error: "An operation failed and will be retried"',
    ],
    unreadable: [
      'error',
      'The daemon cannot compare this part of the kernel, and changes nothing there.',
      '# the log of the daemon has the error: "Cannot read a table"',
    ],
    'no-room': [
      'warning',
      'What is left out is not served on this node. Namespaces that want no more than their share are served completely.',
      'kube-ipvs status --problems',
      '# names the Services; kubeIPVS.maxRealServers is the limit, and memory must suffice for a larger one',
    ],
    problem: ['error', 'It is a problem of the node and not of an object.', 'kube-ipvs status --problems'],
  }

function reasoned({ problems, ...daemon }: DaemonFact): ReasonedDaemon {
  return {
    ...daemon,
    problems: problems.map(({ field, ...problem }) => (field === null ? problem : { ...problem, field })),
  }
}

/** Whether the kernel has what a proxy wrote although nothing follows their changes, as far as every process is visible. */
function isAbandoned({ runningMode, processes, hiddenProcesses, modesInKernel, ipvs, rules }: NodeFacts): boolean {
  if (runningMode !== null || hiddenProcesses !== null || processes.some(({ program }) => PROXIES.has(program)))
    return false
  if (modesInKernel !== OLDER_BUNDLE) return valueOr(modesInKernel, []).length > 0
  const chains = valueOr(rules, []).reduce((sum, { serviceChains }) => sum + serviceChains, 0)
  return (valueOr(ipvs, null)?.virtualServers ?? 0) > 0 || chains > 0
}

/** Programs that serve Services themselves, or may. */
const PROXIES: ReadonlySet<Program> = new Set([
  'kube-proxy',
  'k3s',
  'rke2',
  'kube-router',
  'keepalived',
  'loxilb',
  'cilium-agent',
])

/** The socket and the reason in the message of such a problem. */
const TAKEN = /cannot listen at (\[?[0-9a-f:.]{3,45}\]?:([0-9]{1,5})) for the node port: (.+)$/
const MAX_TAKEN = 3

/** Node ports that the daemon should relay, and cannot listen at. */
function takenPorts(messages: readonly string[]): Finding {
  const found = messages.flatMap((message) => {
    const [, socket, port, reason] = TAKEN.exec(message) ?? []
    return socket === undefined || port === undefined || reason === undefined ? [] : [{ socket, port, reason }]
  })
  const some = found.slice(0, MAX_TAKEN).map(({ socket, reason }) => `${socket} (${printable(reason)})`)
  const more = messages.length > some.length ? ` and ${messages.length - some.length} more` : ''
  const ports = new Set(found.slice(0, MAX_TAKEN).map(({ port }) => port))
  return {
    severity: 'warning',
    what: `The daemon cannot listen at node ports of loopback addresses: ${some.join(', ')}${more}.`,
    effect:
      'Clients of this node reach another program there, or nobody. The daemon tries again; other node ports are not affected.',
    remedy: [
      ...Array.from(ports, (port) => `ss -ltnp 'sport = :${port}'`),
      '# names the program that listens there: end it, or give the Service another nodePort',
    ],
  }
}

function daemonHealth(facts: NodeFacts): CheckResult {
  const { daemon, daemonSilence } = facts
  if (daemonSilence !== '')
    return found({
      severity: 'warning',
      what: `A daemon listens at its socket and does not say how it is: ${daemonSilence}.`,
      effect: 'It starts at this moment, or it hangs: then no change of a Service reaches the kernel.',
      remedy: ['kube-ipvs status', '# and the log of the daemon'],
    })
  return when(daemon, (fact) => {
    if (fact === null)
      return isAbandoned(facts)
        ? found({
            severity: 'warning',
            what: 'The kernel has what a proxy wrote, and no proxy answers on this node.',
            effect: 'What the kernel has is served, but no change of a Service arrives.',
            remedy: ['# start kube-ipvs; a start changes nothing that is right'],
          })
        : FINE
    const view = reasoned(fact)
    const findings = nodeReasons(view).map(({ kind, text }): Finding => {
      const [severity, effect, ...remedy] = REASONS[kind]
      return {
        severity,
        what: `The daemon says: ${text}.`,
        effect,
        remedy: kind === 'fallback' && fact.fallback !== null ? [`# ${fact.fallback.remedy}`] : remedy,
      }
    })
    const ofNode = view.problems.filter(({ about }) => about !== 'object').length
    const taken = view.problems.filter(({ code }) => code === 'localhost-node-port')
    if (taken.length > 0) findings.push(takenPorts(taken.map(({ message }) => message)))
    const ofObjects = fact.problemCount - ofNode - taken.length
    if (ofObjects > 0)
      findings.push({
        severity: 'note',
        what: `${ofObjects} problem${ofObjects === 1 ? '' : 's'} with objects of the cluster.`,
        effect: 'Their Services are served without what is wrong with them.',
        remedy: ['kube-ipvs status --problems'],
      })
    const settings = view.problems.filter(({ about }) => about === 'setting').length
    if (settings > 0)
      findings.push({
        severity: 'note',
        what: `The daemon could not write ${settings} setting${settings === 1 ? '' : 's'} of the kernel.`,
        effect: 'Services still work, less well.',
        remedy: ['kube-ipvs status --problems'],
      })
    return found(...findings)
  })
}

const WITHOUT_NODE =
  'Every endpoint counts as one of another node: Services with a policy Local have none here, zones have no effect, and /healthz answers 503.'

function nodeName({ cluster, daemon, nodeName: name }: NodeFacts): CheckResult {
  const fact = valueOr(daemon, null)
  const object = valueOr(cluster, undefined)?.node
  if (object !== undefined && 'value' in object) {
    if (object.value.isThere) return FINE
    // A bundle could name anything, and these are parts of commands.
    const similar = object.value.similar.filter((one) => NODE_NAME.test(one))
    return found({
      severity: 'error',
      what: `The cluster has no Node ${quote(name)}${similar.length === 0 ? '' : `; this host may be ${similar.map(quote).join(' or ')}`}.`,
      effect: WITHOUT_NODE,
      remedy: similar.length === 0 ? OVERRIDE : [...similar.map((one) => `--hostname-override=${one}`), ...OVERRIDE],
    })
  }
  // The daemon has waited for its Node, and the time is over.
  if (fact !== null && !fact.knowsNode && !fact.health.healthy)
    return found({
      severity: 'error',
      what: `The daemon does not know its Node ${quote(fact.nodeName)}.`,
      effect: WITHOUT_NODE,
      remedy: ['kubectl get nodes', ...OVERRIDE],
    })
  if (object === undefined) return when(cluster, () => FINE)
  return when(object, () => FINE)
}

const NODE_NAME = /^[a-z0-9][a-z0-9.-]{0,252}$/

const OVERRIDE: readonly string[] = [
  '# the name of the Node, which the DaemonSet can take from spec.nodeName: --hostname-override, or in the KubeProxyConfiguration',
  'hostnameOverride: NAME',
]

export const DAEMON_CHECKS: readonly Check[] = [
  { id: 'daemon-health', group: 'daemon', good: 'the daemon that runs calls the node fine', check: daemonHealth },
  { id: 'node-name', group: 'daemon', good: 'the cluster has a Node of this name', check: nodeName },
]
