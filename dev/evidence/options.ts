/** The command line of `npm run evidence`. */
import { parseArgs } from 'node:util'

export interface EvidenceOptions {
  /** Names of parts; empty: all. */
  readonly only: readonly string[]
  /** undefined: each part's own. */
  readonly hours: number | undefined
  readonly seed: number
  /** Improve what the parts begin with instead of running them. */
  readonly isGrowing: boolean
  readonly words: readonly string[]
}

const MAX_HOURS = 1000
const MAX_SEED = 2 ** 32 - 1

/** The options, or one line that says what is wrong. @param parts names of the parts that there are */
export function parseEvidenceOptions(
  args: readonly string[],
  parts: readonly string[],
): EvidenceOptions | { readonly error: string } {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        only: { type: 'string', multiple: true },
        hours: { type: 'string' },
        seed: { type: 'string', default: '1' },
        grow: { type: 'boolean', default: false },
      },
    })
    const only = (values.only ?? []).flatMap((text) => text.split(','))
    const unknown = only.find((name) => !parts.includes(name))
    if (unknown !== undefined) return { error: `--only is ${parts.join(' or ')}, not "${unknown}"` }
    const hours = values.hours === undefined ? undefined : numberIn('hours', values.hours, MAX_HOURS)
    const seed = numberIn('seed', values.seed, MAX_SEED)
    if (!Number.isInteger(seed)) return { error: '--seed is a whole number' }
    return { only, hours, seed, isGrowing: values.grow, words: positionals }
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) }
  }
}

function numberIn(name: string, text: string, max: number): number {
  const value = /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : Number.NaN
  if (!(value > 0 && value <= max)) throw new Error(`--${name} is a number above 0, up to ${max}, not "${text}"`)
  return value
}
