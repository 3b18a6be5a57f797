/**
 * How one run of the program and a recording of kube-proxy differ. The whole of standard error is
 * compared, except: klog's header, of which only the severity counts (`I`, `W`, `E`); `ts` and
 * `caller` of JSON lines; the name of the program; the usage text, which is `<usage>`; FLAG lines
 * of flags that kube-proxy does not have; and the words of errors of decoding a file.
 */
import type { Flag } from '../../src/start/flag.ts'
import { FLAGS } from '../../src/start/flags.ts'
import { differenceOf } from '../support/deviations.ts'
import { ourLog } from './decode-errors.ts'
import type { Outcome } from './program.ts'

export interface Recorded {
  readonly exit: number
  readonly stdout: string
  readonly stderr: string
  /** Absent or null: nothing was written. */
  readonly written?: string | null
}

const RECORDED_HEADER = /^([IWEF])<time> <pid> [^\s\]]+\]/
const OUR_HEADER = /^([IWEF])\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [^\s\]]+\]/
const JSON_HEADER = /^\{"ts":(?:<ts>|[\d.e+]+),"caller":"[^"]*",/
const USAGE = /^Usage:\n[^]*?\n\n(?=Error: )/m

export function mismatches(recorded: Recorded, ours: Outcome): readonly string[] {
  const found: string[] = []
  if (ours.exit !== recorded.exit) found.push(`exit code ${ours.exit}, not ${recorded.exit}`)
  const texts: (readonly [what: string, recorded: string, ours: string])[] = [
    ['stdout', recorded.stdout, named(ours.stdout)],
    [
      'stderr',
      linesOf(recorded.stderr),
      linesOf(ourLog(recorded.stderr, named(ours.stderr).replace(USAGE, '<usage>\n\n'))),
    ],
  ]
  const [wasWritten, written] = [recorded.written ?? undefined, ours.written]
  if (wasWritten !== undefined && written !== undefined) texts.push(['written', wasWritten, written])
  else if (wasWritten !== written) found.push(written === undefined ? 'written: no file' : 'written: a file, not none')
  for (const [what, expected, left] of texts) {
    const difference = differenceOf(expected, left)
    if (difference !== '') found.push(`${what}:\n${difference}`)
    else if (expected !== left) found.push(`${what}: another end of the last line`)
  }
  return found
}

const named = (text: string): string => text.replaceAll('kube-ipvs', 'kube-proxy')

const FLAGS_TABLE: readonly Flag[] = Object.values(FLAGS)
const OWN: ReadonlySet<string> = new Set(FLAGS_TABLE.flatMap(({ name, own }) => (own === true ? [name] : [])))

function linesOf(text: string): string {
  return text
    .split('\n')
    .map((line) =>
      line.replace(RECORDED_HEADER, '$1]').replace(OUR_HEADER, '$1]').replace(JSON_HEADER, '{"ts":<ts>,"caller":…,'),
    )
    .filter((line) => !OWN.has(/FLAG: --([\w-]+)=/.exec(line)?.[1] ?? ''))
    .join('\n')
}
