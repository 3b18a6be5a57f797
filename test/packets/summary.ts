/** What a run of the packet oracle has seen, as a table for people. Pure. */
import type { Difference } from './judge.ts'
import { type Kind, KINDS, type Packet } from './packets.ts'
import type { Observation } from './world.ts'

/** `own`: the server saw the client's own address; `masqueraded`: another one. */
export type Outcome = 'own' | 'masqueraded' | 'refused' | 'dropped' | 'error'
const OUTCOMES: readonly Outcome[] = ['own', 'masqueraded', 'refused', 'dropped', 'error']

export function outcomeOf({ verdict, source }: Observation): Outcome {
  if (verdict === 'nothing') return 'dropped'
  if (verdict.startsWith('refused')) return 'refused'
  if (verdict === 'echo' || source === 'its own') return 'own'
  return source === '' ? 'error' : 'masqueraded'
}

export class Summary {
  readonly #counts = new Map<string, number>()
  #packets = 0

  /** The packets of a trial, with what the first firewall did to them, and the differences that count. */
  add(reference: readonly (readonly [Packet, Observation])[], differences: readonly Difference[]): void {
    this.#packets += reference.length
    for (const [{ kind }, observation] of reference) this.#count(kind, outcomeOf(observation))
    for (const { kind } of new Set(differences.map(({ packet }) => packet))) this.#count(kind, 'differ')
  }

  #count(kind: Kind, column: string): void {
    const key = `${kind} ${column}`
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1)
  }

  get packets(): number {
    return this.#packets
  }

  /** How many packets of all kinds had this outcome. */
  total(outcome: Outcome): number {
    return KINDS.reduce((sum, kind) => sum + (this.#counts.get(`${kind} ${outcome}`) ?? 0), 0)
  }

  /** A line of names, then one for each kind. */
  get table(): string[] {
    const columns = [...OUTCOMES, 'differ']
    const rows = KINDS.map((kind) => [
      kind,
      ...columns.map((column) => `${this.#counts.get(`${kind} ${column}`) ?? 0}`),
    ])
    return [['packets to', ...columns], ...rows].map(([first = '', ...cells]) =>
      [first.padEnd(18), ...cells.map((cell) => cell.padStart(12))].join(''),
    )
  }
}
