/** The results of `npm run bench -- --handover`, and how they are printed. Pure. */
import type { Run } from './record.ts'
import { alignColumns } from './report.ts'
import type { Mode } from './result.ts'
import type { HeldReport, RateReport } from './traffic-client.ts'

/**
 * In the order in which they are measured. `kill`: SIGKILL and start; `switch`: to the other mode
 * and back in one process.
 */
export const HANDOVER_EVENTS = [
  'adopt',
  'restart',
  'kill',
  'upgrade',
  'switch',
  'switch by restart',
  'fallback',
] as const
export type HandoverEvent = (typeof HANDOVER_EVENTS)[number]

/** What one boot measures. */
export interface HandoverMeasured {
  /** From the first step of the event to the end of the last one, traffic between two steps included. */
  readonly eventMs: number
  /**
   * Operations of the new program on the kernel's tables until its first pass had ended; null for a
   * change of the mode.
   */
  readonly operations: number | null
  readonly held: HeldReport
  readonly made: RateReport
  /** The first failures, as the clients print them. */
  readonly failures: readonly string[]
}

export interface HandoverPoint extends HandoverMeasured {
  readonly event: HandoverEvent
  /** The mode before the event. */
  readonly mode: Mode
  /** What wrote the state that the event begins with. */
  readonly stateOf: 'kube-ipvs' | 'kube-proxy'
}

export interface Handover extends Pick<Run, 'at' | 'commit' | 'kernel'> {
  readonly services: number
  readonly endpoints: number
  /** New connections a second. */
  readonly rate: number
  readonly points: readonly HandoverPoint[]
}

/** Whether no established connection was dropped and no new one failed. */
export function isWithoutLoss({ points }: Handover): boolean {
  return points.every(({ held, made }) => held.dropped === 0 && made.failed === 0)
}

const NAMES: Readonly<Record<HandoverEvent, (point: HandoverPoint) => string>> = {
  adopt: ({ stateOf }) => `adopt the state of ${stateOf}`,
  restart: () => 'restart',
  kill: () => 'SIGKILL and start',
  upgrade: () => 'upgrade by a second process',
  switch: ({ mode }) => (mode === 'ipvs' ? 'to iptables and back' : 'to ipvs and back'),
  'switch by restart': () => 'the same by restarts',
  fallback: () => 'fallback and return',
}

const HEADINGS: readonly (readonly string[])[] = [
  ['', '', 'established', '', '', 'new', '', '', '', 'operations', 'event'],
  ['', 'mode', 'open', 'dropped', 'longest', 'made', 'failed', 'slow', 'longest', 'on tables', ''],
]

/** A table for people, and the failures below it, without a line break at its end. */
export function formatHandover(handover: Handover): string {
  const { services, endpoints, rate, kernel, points } = handover
  const rows = points.map((point) => {
    const { held, made, mode, operations, eventMs } = point
    return [
      NAMES[point.event](point),
      mode,
      whole(held.connections),
      whole(held.dropped),
      `${whole(held.longestMs)} ms`,
      whole(made.made),
      whole(made.failed),
      whole(made.slow),
      `${whole(made.longestMs)} ms`,
      operations === null ? '-' : whole(operations),
      `${(eventMs / 1000).toFixed(1)} s`,
    ]
  })
  const lines = [
    `${whole(services)} Services with ${endpoints} endpoints each, ${rate} new connections a second, kernel ${kernel.kind} ${kernel.release ?? ''}`,
    '',
    ...alignColumns([...HEADINGS, ...rows]),
    ...points.flatMap((point) =>
      point.failures.map((failure) => `${NAMES[point.event](point)}, ${point.mode}: ${failure}`),
    ),
    '',
    isWithoutLoss(handover)
      ? 'No established connection was dropped, and no new one failed.'
      : 'Connections were dropped or failed.',
  ]
  return lines.join('\n')
}

const whole = (value: number): string => Math.round(value).toLocaleString('en-US')
