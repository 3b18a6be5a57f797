/** What `npm audit --json` and `npm audit signatures --json` have found, or why they could not ask. */

export interface NpmAnswer {
  /** `unasked`: the registry, or the keys of the signatures, could not be reached. */
  readonly result: 'none' | 'found' | 'unasked'
  /** Why it could not be asked. */
  readonly reason?: string
  /** One sentence each. */
  readonly problems: readonly string[]
}

interface Report {
  readonly error?: { readonly summary?: string }
  readonly message?: string
  readonly statusCode?: number
  /** Of `npm audit`, by package. */
  readonly vulnerabilities?: Readonly<Record<string, { readonly severity: string; readonly via: readonly unknown[] }>>
  /** Of `npm audit signatures`. */
  readonly invalid?: readonly { readonly name: string; readonly version: string }[]
  readonly missing?: readonly { readonly name: string; readonly version: string }[]
}

/** @param output of stdout and stderr */
export function npmAnswer({ code, output }: { readonly code: number; readonly output: string }): NpmAnswer {
  const report = reportIn(output)
  if (report?.vulnerabilities !== undefined) return found(vulnerable(report.vulnerabilities))
  if (report?.invalid !== undefined && report.missing !== undefined)
    return found([
      ...report.invalid.map(({ name, version }) => `the signature of ${name}@${version} is wrong`),
      ...report.missing.map(({ name, version }) => `${name}@${version} has no signature, and its registry signs`),
    ])
  const errors = output.split('\n').filter((line) => line.startsWith('npm error'))
  const said = [report?.message, report?.error?.summary, ...errors, `npm ended with ${code}`]
  return { result: 'unasked', reason: said.find((text) => text !== undefined && text !== '') ?? '', problems: [] }
}

const found = (problems: readonly string[]): NpmAnswer => ({ result: problems.length > 0 ? 'found' : 'none', problems })

function vulnerable(all: NonNullable<Report['vulnerabilities']>): readonly string[] {
  return Object.entries(all).map(([name, { severity, via }]) => {
    const titles = via.flatMap((one) =>
      typeof one === 'object' && one !== null && 'url' in one && typeof one.url === 'string' ? [one.url] : [],
    )
    return `${name} has a vulnerability (${severity}) ${titles.join(' ')}`.trimEnd()
  })
}

function reportIn(output: string): Report | undefined {
  const start = output.indexOf('{')
  if (start < 0) return undefined
  try {
    return JSON.parse(output.slice(start, output.lastIndexOf('}') + 1)) as Report // npm's format
  } catch {
    return undefined
  }
}
