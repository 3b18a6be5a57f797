/**
 * `kube-ipvs drain`: what drains on this node, and with --wait the end of the connections to a pod.
 * It changes nothing and starts no drain: the API decides which endpoints there are.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { askDaemon, type DaemonClient, isUnknown } from '../inspect/daemon-client.ts'
import { OBJECT_NAME } from '../inspect/questions.ts'
import { type ConnectionCounts, LocalConnections } from '../modes/look/connections.ts'
import { type Look, withLook } from '../modes/look/look.ts'
import { listDrains } from '../modes/look/virtual-servers.ts'
import { answeringMode } from '../modes/modes-in-kernel.ts'
import { deadlineSignal } from '../node/deadline.ts'
import { parseAddress } from '../values/address.ts'
import { formatDuration } from '../values/duration.ts'
import { CodedError } from '../values/errors.ts'
import { quote } from '../values/quote.ts'
import { countsText, drainsText, durationText, joinDrains, outliersText, withoutOutliers } from './drain-text.ts'
import { waitForEnd } from './drain-wait.ts'
import type { FlagValues } from '../start/flags.ts'
import { page, printErrorText, printJson, printLines, ProgressLine, stderrLog } from '../start/output.ts'
import { loadSettings } from '../start/settings.ts'

const DEADLINE_MS = 30_000
const TIMEOUT_MS = { default: 300_000, most: 86_400_000 } as const
/** The time is over and connections are left. */
const LEFT_EXIT_CODE = 3

/** Resolves to the exit code. */
export async function drain(flags: FlagValues, words: readonly string[]): Promise<number> {
  const [word] = words
  if (word !== undefined) {
    printErrorText(noStart(word))
    return 1
  }
  const { configuration } = await loadSettings(flags)
  const daemon = askDaemon(configuration.kubeIPVS.socket)
  const { wait } = flags
  if (wait !== undefined && wait !== '') return waitFor(wait, daemon, flags)
  for (const flag of ['timeout', 'all'] as const)
    if (flags[flag] !== undefined) throw new CodedError('usage', `--${flag} is for --wait`)
  return withLook((look) => showDrains(look, daemon, flags))
}

function noStart(word: string): string {
  return [
    `kube-ipvs drain: ${quote(word)} is not drained from here: the endpoints of Services are what the API says, and the daemon follows it.`,
    'To take a pod out of service:    kubectl delete pod POD, or change the labels that the Service selects',
    'To empty a node:                 kubectl drain NODE --ignore-daemonsets',
    'To wait for its last connection: kube-ipvs drain --wait NAMESPACE/POD',
  ].join('\n')
}

async function showDrains(look: Look, daemon: DaemonClient, flags: FlagValues): Promise<number> {
  const signal = deadlineSignal(DEADLINE_MS, 'reading the connections')
  const view = await daemon.drains()
  const status = await daemon.daemon()
  const isKnown = !isUnknown(view)
  if (!isKnown) stderrLog.warn(`kube-ipvs drain: names, ages and deadlines are unknown: ${view.reason}`)
  const mode = isUnknown(status) ? answeringMode(await look.modes(signal)) : status.mode
  const hasIpvs = mode === 'ipvs' || (await look.hasVirtualIps(signal))
  if (mode === 'iptables')
    stderrLog.warn(
      `kube-ipvs drain: nothing drains in iptables mode: the rules of an endpoint are removed at once, and its connections continue${
        hasIpvs ? '; what drains was left by ipvs mode' : ''
      }`,
    )
  if (mode === undefined)
    stderrLog.warn(
      'kube-ipvs drain: this network namespace has nothing of ipvs mode and no rules of iptables mode: is it that of the node?',
    )
  const ipvs = hasIpvs ? await look.ipvs(signal) : undefined
  const live = ipvs === undefined ? [] : await listDrains(ipvs, signal)
  const outliers = await daemon.outliers()
  const silent = isUnknown(outliers) ? [] : outliers.outliers.filter(({ state }) => state === 'suspect')
  const drains = joinDrains(withoutOutliers(live, silent), isKnown ? view.drains : undefined)
  const { style, columns } = page()
  if (flags.output === 'json') printJson({ mode: mode ?? null, isKnown, drains, outliers: silent })
  else printLines([...drainsText(drains, style, columns), ...outliersText(silent, style, columns)])
  return 0
}

async function waitFor(target: string, daemon: DaemonClient, flags: FlagValues): Promise<number> {
  const { timeout: timeoutMs = TIMEOUT_MS.default, all = false } = flags
  if (timeoutMs < 0 || timeoutMs > TIMEOUT_MS.most)
    throw new CodedError('usage', `--timeout must be 0s to ${formatDuration(TIMEOUT_MS.most)}`)
  const targets = await targetsOf(target, daemon)
  const counter = new Counter(daemon, targets, all)
  const progress = new Progress(target, all, timeoutMs)
  try {
    const end = await waitForEnd({
      count: () => counter.count(),
      timeoutMs,
      all,
      now: () => performance.now(),
      sleep,
      onCount: (counts, waitedMs) => progress.show(counts, waitedMs),
    })
    progress.end()
    const { isDone, counts } = end
    const seconds = Math.round(end.waitedMs) / 1000
    if (flags.output === 'json') printJson({ target, targets, isDone, seconds, ...counts })
    else if (isDone) printLines([`no connection to ${target} is left after ${durationText(seconds)}`])
    else {
      const what = counts === undefined ? 'connections that cannot be counted' : countsText(counts, all)
      printLines([`${what} to ${target} left after ${durationText(seconds)}`])
    }
    return isDone ? 0 : LEFT_EXIT_CODE
  } finally {
    progress.end()
    counter.close()
  }
}

/** The endpoints of a pod, or the IPs themselves. */
async function targetsOf(target: string, daemon: DaemonClient): Promise<readonly string[]> {
  const addresses = target.split(',').map((one) => parseAddress(one.trim()))
  const known = addresses.filter((address) => address !== undefined)
  if (known.length === addresses.length) return known
  if (!OBJECT_NAME.test(target))
    throw new CodedError('usage', `--wait: ${quote(target)} is neither the NAMESPACE/NAME of a pod nor its IPs`)
  const pod = await daemon.pod(target)
  if (isUnknown(pod))
    throw new CodedError('pod-unknown', `the IPs of the pod ${target} are unknown: ${pod.reason}; give its IP instead`)
  if (pod.endpoints.length === 0)
    throw new CodedError(
      'pod-unknown',
      `no EndpointSlice names the pod ${target}: it is not there, belongs to no Service, or has been removed from it; give its IP instead`,
    )
  return pod.endpoints
}

/** Counts where the daemon is, because this process may be in the network namespace of a pod; without a daemon here. */
class Counter {
  readonly #daemon: DaemonClient
  readonly #targets: readonly string[]
  readonly #all: boolean
  #local: LocalConnections | undefined
  #hasAnswered = false

  constructor(daemon: DaemonClient, targets: readonly string[], all: boolean) {
    this.#daemon = daemon
    this.#targets = targets
    this.#all = all
  }

  /** undefined: the daemon does not answer any more, and this namespace is not the node's. */
  async count(): Promise<ConnectionCounts | undefined> {
    const signal = deadlineSignal(DEADLINE_MS, 'reading the connections')
    if (this.#local === undefined) {
      const answer = await this.#daemon.connections(this.#targets, this.#all)
      if (!isUnknown(answer)) {
        this.#hasAnswered = true
        const { active, inactive, udp } = answer
        return { active, inactive, udp }
      }
      try {
        this.#local = await LocalConnections.open(this.#targets, this.#all, signal)
      } catch (error) {
        if (this.#hasAnswered) return undefined
        throw error
      }
    }
    return this.#local.count(signal)
  }

  close(): void {
    this.#local?.close()
  }
}

/** One line on a terminal that is written again and again; nothing elsewhere. */
class Progress {
  readonly #target: string
  readonly #all: boolean
  readonly #timeout: string
  readonly #line = new ProgressLine()

  constructor(target: string, all: boolean, timeoutMs: number) {
    this.#target = target
    this.#all = all
    this.#timeout = durationText(timeoutMs / 1000)
  }

  show(counts: ConnectionCounts | undefined, waitedMs: number): void {
    const what = counts === undefined ? 'no answer of the daemon' : countsText(counts, this.#all)
    this.#line.show(`${this.#target}: ${what}, ${durationText(waitedMs / 1000)} of ${this.#timeout}`)
  }

  end(): void {
    this.#line.end()
  }
}
