/**
 * The rows of the evidence: what each step cost, what the documents promise for it, and the
 * summary. Pure.
 */
import { counted } from './objects.ts'
import { isSameProgram, type Journey, nameOf, type Proxy } from './proxies.ts'

/** A machine that holds the guest for longer is too busy for what is measured. */
const LONG_MS = 2_000

/** What the guest has measured in one step. */
export interface Step {
  readonly node: number
  readonly from: Proxy
  readonly to: Proxy
  readonly isCleanup: boolean
  /**
   * Connections that exchanged bytes all the time, and those of them that ended or were silent for
   * 10 s.
   */
  readonly established: { readonly open: number; readonly lost: number; readonly longestMs: number }
  /** New ones at a steady rate. `slow`: 900 ms or longer. */
  readonly fresh: { readonly made: number; readonly failed: number; readonly slow: number; readonly longestMs: number }
  /**
   * Until the node followed a new endpoint, and until it refused again after the endpoint had gone.
   */
  readonly followsMs: number
  /** How long the measuring process was held at most: pauses of connections may be this machine's. */
  readonly heldMs: number
  /** What is there beside the state of a fresh start, and what a fresh start has beside it. */
  readonly leftovers: readonly string[]
  readonly missing: readonly string[]
  /** First failed connections. */
  readonly failures: readonly string[]
}

/** What the documents promise for a step. */
export interface Promised {
  readonly established: boolean
  readonly fresh: boolean
  readonly noLeftovers: boolean
}

/**
 * docs/migration.md and docs/support.md: a proxy that follows another loses nothing, and kube-ipvs
 * removes what it does not need. kube-proxy leaves what its mode does not write, and an older
 * kube-ipvs what it does not know. In nftables mode kube-proxy first removes what other modes have:
 * virtual servers with their connections, and rules, so new connections fail. After a change of the
 * mode virtual servers live as long as their connections. A cleanup ends connections too, and takes
 * rules of kube-proxy along.
 */
export function promisedFor({ from, to, isCleanup }: Pick<Step, 'from' | 'to' | 'isCleanup'>): Promised {
  if (isCleanup) return { established: false, fresh: false, noLeftovers: true }
  if (to.mode === 'nftables') return { established: from.mode !== 'ipvs', fresh: false, noLeftovers: false }
  const isSwitch = isSameProgram(from, to) && from.mode !== to.mode
  return {
    established: true,
    fresh: true,
    noLeftovers: to.program === 'kube-ipvs' && to.release === 'HEAD' && !isSwitch,
  }
}

export function problemsOf(step: Step): readonly string[] {
  const promised = promisedFor(step)
  const { established, fresh, leftovers, missing } = step
  const wrong = [
    promised.established && established.lost > 0 ? `${established.lost} of ${established.open} established lost` : '',
    promised.fresh && fresh.failed > 0 ? `${fresh.failed} of ${fresh.made} new ones failed` : '',
    promised.noLeftovers && leftovers.length > 0 ? `left over: ${counted(leftovers)}` : '',
    missing.length > 0 ? `missing: ${counted(missing)}` : '',
  ].filter((text) => text !== '')
  const held = step.heldMs > LONG_MS ? ` (this machine held the guest for ${step.heldMs} ms)` : ''
  return wrong.map((text) => `${titleOf(step)}: ${text}${held}`)
}

function titleOf(step: Pick<Step, 'from' | 'to' | 'isCleanup'>, withRelease = true): string {
  const to = nameOf(step.to, withRelease)
  return step.isCleanup ? `kube-ipvs cleanup under ${to}` : `${nameOf(step.from, withRelease)} to ${to}`
}

/** A row of the data. */
export function rowOf(step: Step): object {
  const { node, from, to, isCleanup, established, fresh, heldMs, followsMs, leftovers, missing, failures } = step
  const promised = promisedFor(step)
  return {
    from: nameOf(from),
    to: isCleanup ? `${nameOf(to)}, after kube-ipvs cleanup` : nameOf(to),
    node,
    promised: Object.entries(promised).flatMap(([name, is]: [string, unknown]) => (is === true ? [name] : [])),
    established,
    new: fresh,
    longestPauseMs: Math.max(established.longestMs, fresh.longestMs),
    heldMs,
    followsMs,
    leftovers: counted(leftovers),
    missing: counted(missing),
    examples: [...leftovers, ...missing].slice(0, 5),
    failures,
  }
}

/** One line for each kind of step, with the releases taken together. */
export function summaryOf(steps: readonly Step[]): Readonly<Record<string, string>> {
  const kinds = Map.groupBy(steps, (step) => titleOf(step, false))
  return Object.fromEntries([...kinds].map(([kind, of]) => [kind, lineOf(of)]))
}

function lineOf(steps: readonly Step[]): string {
  const sum = (value: (step: Step) => number): string =>
    steps.reduce((total, step) => total + value(step), 0).toLocaleString('en-US')
  const pause = Math.max(...steps.flatMap(({ established, fresh }) => [established.longestMs, fresh.longestMs]))
  const leftovers = [...new Set(steps.map((step) => counted(step.leftovers)))]
  return [
    `${steps.length} ${steps.length === 1 ? 'step' : 'steps'}`,
    `${sum(({ established }) => established.lost)} of ${sum(({ established }) => established.open)} established lost`,
    `${sum(({ fresh }) => fresh.failed)} of ${sum(({ fresh }) => fresh.made)} new failed`,
    `longest pause ${Math.round(pause)} ms`,
    `left over: ${leftovers.join(' or ')}`,
  ].join('; ')
}

/** Steps of a journey, as pairs of what runs before and after. */
export function pairsOf({ nodes, first, moves }: Journey): readonly Pick<Step, 'node' | 'from' | 'to' | 'isCleanup'>[] {
  const running = Array.from({ length: nodes }, () => first)
  return moves.map(({ node, to, cleanup }) => {
    const from = running[node] ?? first
    running[node] = to
    return { node, from, to, isCleanup: cleanup === true }
  })
}

/**
 * Whether the running program is told of another configuration, instead of a start of the next one.
 */
export const isReload = ({ from, to, isCleanup }: Pick<Step, 'from' | 'to' | 'isCleanup'>): boolean =>
  !isCleanup && isSameProgram(from, to) && from.program === 'kube-ipvs'
