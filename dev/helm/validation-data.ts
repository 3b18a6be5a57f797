/**
 * Makes helm/files/validation.json: the facts with which templates/_validate.tpl checks `config` as
 * the program does. kube-proxy's internal name of a field, which the messages contain, is taken
 * from the message that the program itself gives.
 */
import { GATES_THAT_COUNT, pathsWithoutRestart } from '../../src/config/changes.ts'
import type { Field, ProxyMode } from '../../src/config/field.ts'
import { knownGates } from '../../src/config/known-gates.ts'
import { loadConfiguration } from '../../src/config/load.ts'
import { API_VERSION, KIND } from '../../src/config/schema.ts'
import type { FieldPath } from '../../src/config/types.ts'
import { HIDDEN_METRICS_RELEASE, SOCKET_PATH } from '../../src/config/validate.ts'
import { defaultAsText, FIELD_PATHS, fieldAt, isDuration, withValueAt } from '../../src/config/values.ts'

const MODES: readonly ProxyMode[] = ['ipvs', 'iptables']

/** Patterns of RE2, which Go's templates use; JavaScript reads them alike. */
export function patterns(): Readonly<Record<'address' | 'cidr' | 'hostPort' | 'socketPath', string>> {
  const octet = '0*(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])'
  const v4 = `${octet}(?:\\.${octet}){3}`
  const group = '0*[0-9a-fA-F]{1,4}'
  const groups = (count: number): string => (count === 0 ? '' : `${group}(?::${group}){${count - 1}}`)
  // Addresses of `total` groups; those with `::` have fewer groups written.
  const written = (total: number, tail: string): readonly string[] => {
    const before = (count: number, separator: string): string => `(?:${group}:){${count}}${separator}`
    const withEllipsis = Array.from({ length: total }, (_, first) => {
      const rest = total - 1 - first
      const middle = rest === 0 ? '' : `(?:${group}:){0,${rest}}`
      return `${first === 0 ? '::' : before(first, ':')}${middle}`
    })
    return [before(total, ''), ...withEllipsis].map((text) => `${text}${tail}`)
  }
  // With an IPv4 tail six groups precede it, of which `::` may stand for one or more.
  const mapped = written(6, v4)
  const plain = [
    groups(8),
    ...Array.from({ length: 8 }, (_, first) => {
      const rest = 7 - first
      const after = rest === 0 ? '' : `(?:${group}(?::${group}){0,${rest - 1}})?`
      return `${first === 0 ? '::' : `(?:${group}:){${first}}:`}${after}`
    }),
  ]
  const v6 = `(?:${[...plain, ...mapped].join('|')})`
  return {
    address: `^(?:${v4}|${v6})$`,
    cidr: `^(?:${v4}/0*(?:3[0-2]|[12]?[0-9])|${v6}/0*(?:12[0-8]|1[01][0-9]|[1-9]?[0-9]))$`,
    socketPath: SOCKET_PATH.source.replaceAll('\\/', '/'),
    hostPort: '^([^:\\[\\]]*|\\[[^\\[\\]]*\\]):([^:\\[\\]]*)$',
  }
}

/** The program's message about a wrong release, as a format with the two places of its value. */
function refusedRelease(): string {
  const wrong = 'wrong'
  return refusalOf('ipvs', 'showHiddenMetricsForVersion', wrong)?.replaceAll(`"${wrong}"`, '%q') ?? ''
}

/** The text of validation.json. */
export function validationDataText(): string {
  const data = {
    comment: 'Generated from src/config/fields.ts; see test/helm/generated.test.ts',
    patterns: { ...patterns(), release: HIDDEN_METRICS_RELEASE },
    texts: { release: refusedRelease() },
    // An empty text is in kube-proxy's own list.
    localModes: [...(fieldAt('detectLocalMode').words ?? []), ''],
    durations: FIELD_PATHS.filter((path) => isDuration(fieldAt(path).kind)).sort(),
    rules: FIELD_PATHS.flatMap(rulesOf),
    lockedGates: Object.fromEntries(
      Array.from(knownGates())
        .filter(([, { locked }]) => locked)
        .map(([name, { on }]) => [name, on]),
    ),
    // A changed value of these restarts no daemon: it applies the value, or the field has no effect.
    withoutRestart: pathsWithoutRestart(),
    // Of the feature gates only these do.
    restartGates: [...GATES_THAT_COUNT],
  }
  return `${JSON.stringify(data, undefined, 2)}\n`
}

/** The rule of a field for each mode in which the program checks it; one for both where they do not differ. */
function rulesOf(path: FieldPath): readonly Readonly<Record<string, unknown>>[] {
  const row = fieldAt(path)
  const { rule, words, kind } = row
  // The words of kube-proxy's own fields have messages of their own, which the template has.
  const isWord = words !== undefined && path.startsWith('kubeIPVS.')
  if (rule === undefined && !isWord) return []
  const names = MODES.map((mode) => nameIn(mode, path, row))
  const [inIpvs, inIptables] = names
  const facts = {
    path,
    kind,
    default: isDuration(kind) ? defaultAsText(path) : row.default,
    ...(isWord ? { rule: 'words', words } : typeof rule === 'string' ? { rule } : { rule: 'range', range: rule }),
  }
  if (inIpvs === inIptables) return inIpvs === undefined ? [] : [{ ...facts, name: inIpvs }]
  return MODES.flatMap((mode, index) => (names[index] === undefined ? [] : [{ ...facts, mode, name: names[index] }]))
}

/** What the program calls the field when it refuses a wrong value in this mode; undefined when it accepts it. */
function nameIn(mode: ProxyMode, path: FieldPath, row: Field): string | undefined {
  return refusalOf(mode, path, wrongValue(row))?.match(/^KubeProxyConfiguration\.([\w.]+)/)?.[1]
}

/** The first reason for which the program refuses a value in this mode; undefined when it accepts it. */
function refusalOf(mode: ProxyMode, path: FieldPath, value: unknown): string | undefined {
  const document = withValueAt({ apiVersion: API_VERSION, kind: KIND, mode }, path.split('.'), value)
  const result = loadConfiguration(JSON.stringify(document), 'document')
  return 'errors' in result ? result.errors[0]?.message.replace(/^failed validate: \[?/, '') : undefined
}

function wrongValue({ kind, rule }: Field): unknown {
  if (rule === 'cidrs') return ['wrong']
  if (typeof rule === 'object') return rule[1] + 1
  if (rule === 'positive' || rule === 'notNegative') return isDuration(kind) ? '-1s' : -1
  return 'wrong'
}
