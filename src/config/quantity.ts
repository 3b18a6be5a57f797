/**
 * Sizes as Kubernetes writes them: `512`, `1K`, `2Ki`, `3e6` (apimachinery resource.Quantity). No
 * code computes with them: what matters is which texts are refused, with which error, and which are
 * zero.
 */
import type { Parsed } from './go-text.ts'

const WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
const SUFFIXES: ReadonlySet<string> = new Set([
  '',
  'n',
  'u',
  'm',
  'k',
  'M',
  'G',
  'T',
  'P',
  'E',
  'Ki',
  'Mi',
  'Gi',
  'Ti',
  'Pi',
  'Ei',
])

/** The quantity as Kubernetes prints it. */
export function parseQuantity(text: string): Parsed<string> {
  const suffix = /^[+-]?\d*(?:\.\d*)?([eEinumkKMGTP]*[-+]?\d*)$/.exec(text)?.[1]
  if (text === '' || suffix === undefined) return { error: WRONG }
  if (!SUFFIXES.has(suffix) && !/^[eE][-+]?\d+$/.test(suffix)) return { error: "unable to parse quantity's suffix" }
  return { value: canonical(text, suffix) }
}

/** A whole number with the largest suffix that fits, as Kubernetes prints it; any other quantity unchanged. */
function canonical(text: string, suffix: string): string {
  const [sign = '', digits = '', fraction = ''] = /^([+-]?)(\d*)(?:\.(\d*))?/.exec(text)?.slice(1) ?? []
  const binary = suffix.endsWith('i')
  const power = /^[eE][-+]?\d/.test(suffix) ? Number(suffix.slice(1)) : binary ? 0 : 3 * DECIMAL.indexOf(suffix)
  if (power < 0 || power > 30) return text
  const scale = binary ? 1024n ** BigInt(BINARY.indexOf(suffix)) : 10n ** BigInt(power)
  const parts = BigInt(`${digits}${fraction}` || '0') * scale
  const unit = 10n ** BigInt(fraction.length)
  if (parts % unit !== 0n) return text
  let value = parts / unit
  let step = 0
  const base = binary ? 1024n : 1000n
  while (value !== 0n && value % base === 0n && step < 6) {
    value /= base
    step++
  }
  return `${sign === '-' ? '-' : ''}${value}${(binary ? BINARY : DECIMAL)[step] ?? ''}`
}

const DECIMAL: readonly string[] = ['', 'k', 'M', 'G', 'T', 'P', 'E']
const BINARY: readonly string[] = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei']

/** Whether a quantity is zero: no digit but 0 before its suffix. */
export function isZeroQuantity(text: string): boolean {
  return !/^[+-]?[\d.]*[1-9]/.test(text)
}
