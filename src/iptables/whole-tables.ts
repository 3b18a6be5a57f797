/** All tables of one family with every chain, as commands see them that judge the rules of all programs. */
import { parsePolicies, parsePrinted } from './save-text.ts'

/** One chain, also a built-in one. */
export interface WholeChain {
  readonly name: string
  /** Without `-A CHAIN `. */
  readonly rules: readonly string[]
  /** ACCEPT or DROP of a built-in chain; undefined for all others. */
  readonly policy: string | undefined
}

export type WholeTable = ReadonlyMap<string, WholeChain>

export type WholeTables = ReadonlyMap<string, WholeTable>

/**
 * Reads what iptables-save printed, without the tables that it leaves out. Throws CodedError when a
 * table is cut off.
 */
export function wholeTables(text: string): WholeTables {
  const policies = parsePolicies(text)
  return new Map(
    Array.from(parsePrinted(text).tables, ([table, chains]) => [
      table,
      new Map(Array.from(chains, ([name, rules]) => [name, { name, rules, policy: policies.get(`${table} ${name}`) }])),
    ]),
  )
}
