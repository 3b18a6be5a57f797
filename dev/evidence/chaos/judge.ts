/** Compares what was seen of a fault with what is expected of it, and makes its row of the page. */
import type { Fault, Probed, Seen } from './fault.ts'

export type Row = Readonly<Record<'fault' | 'expected' | 'lost' | 'a new Service waited' | 'the operator saw', string>>

/** An expectation that is broken. */
export interface Broken {
  readonly text: string
  /** Connections were lost. Anything else may be the fault of a busy machine. */
  readonly isLoss: boolean
}

export function brokenExpectations({ name, expectation }: Pick<Fault, 'name' | 'expectation'>, seen: Seen): Broken[] {
  const { held, made, changeMs, changeAfterEndMs, repairedMs, differences, operator } = seen
  const { dropped, failed = 0, change, repairedWithinS, livez = 'ok', reads } = expectation
  const waitedMs = change.from === 'fault' ? changeMs : changeAfterEndMs
  const texts = [...operator.status, ...Object.keys(operator.log)]
  const losses: readonly (readonly [isBroken: boolean, text: string])[] = [
    [dropped === undefined && held.dropped > 0, `${held.dropped} of ${held.connections} connections were lost`],
    [failed !== 'any' && made.failed > failed, `${made.failed} of ${made.made} new connections failed`],
  ]
  const others: typeof losses = [
    [
      waitedMs === null || waitedMs > change.withinS * 1000,
      `a new Service was served ${waitedMs === null ? 'too late' : `after ${inSeconds(waitedMs)}`}, not within ${change.withinS} s of the ${change.from === 'fault' ? 'fault' : 'end of the fault'}`,
    ],
    [
      repairedWithinS !== undefined && (repairedMs === null || repairedMs > repairedWithinS * 1000),
      `what was removed was there again ${repairedMs === null ? 'too late' : `after ${inSeconds(repairedMs)}`}, not within ${repairedWithinS} s`,
    ],
    [!fits(livez, operator.livez), `/livez answered ${operator.livez}, and ${livez} is expected`],
    [reads !== undefined && !texts.some((text) => reads.test(text)), `neither log nor status say ${reads?.source}`],
    [differences.length > 0, `the kernel differs from before: ${differences.join('; ')}`],
  ]
  return [losses, others].flatMap((checks) =>
    checks
      .filter(([isBroken]) => isBroken)
      .map(([, text]) => ({ text: `${name}: ${text}`, isLoss: checks === losses })),
  )
}

function fits(expected: Probed, livez: string): boolean {
  switch (expected) {
    case 'any':
      return true
    case 'ok':
      return livez === '200'
    case 'fails':
      return livez.includes('503')
    case 'silent':
      return livez.includes('none')
  }
}

/** The row of the page. */
export function rowOf({ name, expectation }: Pick<Fault, 'name' | 'expectation'>, seen: Seen): Row {
  const { held, made, changeMs, changeAfterEndMs, repairedMs, operator, seconds, notes } = seen
  const waited =
    changeMs === null || changeAfterEndMs === null
      ? 'too long'
      : changeAfterEndMs === 0
        ? inSeconds(changeMs)
        : `until ${inSeconds(changeAfterEndMs)} after the end`
  const repaired =
    expectation.repairedWithinS === undefined || repairedMs === null ? [] : [`repaired after ${inSeconds(repairedMs)}`]
  const counters = Object.entries(operator.metrics).map(([family, value]) => `${family} +${value}`)
  return {
    fault: `${name}, ${inSeconds(seconds * 1000)}`,
    expected: expectation.text,
    lost: `${held.dropped} of ${held.connections} established (longest silence ${inSeconds(held.longestMs)}), ${made.failed} of ${made.made} new`,
    'a new Service waited': [waited, ...repaired, ...notes].join('; '),
    'the operator saw': [
      `/livez ${operator.livez}`,
      ...(operator.healthz === operator.livez ? [] : [`/healthz ${operator.healthz}`]),
      `status: ${operator.status.join(', ')}`,
      ...Object.keys(operator.log)
        .slice(0, 4)
        .map((line) => `log: ${line}`),
      ...counters,
    ].join('; '),
  }
}

const inSeconds = (ms: number): string => `${ms < 10_000 ? (ms / 1000).toFixed(1) : Math.round(ms / 1000)} s`
