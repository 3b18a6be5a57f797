/**
 * What passes by itself: all tables of a mode, or what a mode writes beside them. Reports, health
 * and metrics name it.
 */
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'

export interface Part {
  /** `tables`, or `IPv4` for the rules of a family: answers of the local socket have it. */
  readonly name: string
  /** Families that it serves. */
  readonly families: readonly IpFamily[]
}

/** The tables of a mode. */
export const TABLES: Part = { name: 'tables', families: IP_FAMILIES }

/** The rules of a family. */
export function rulesOf(family: IpFamily): Part {
  return { name: family, families: [family] }
}
