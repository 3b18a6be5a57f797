/**
 * Makes docs/configuration.md of the table of configuration fields. The test
 * test/config/reference.test.ts compares the file with it, and rewrites it with `UPDATE_GOLDEN=1`.
 */
import { hasNoEffect } from '../src/config/changes.ts'
import type { Consequence, Field, Kind, ProxyMode } from '../src/config/field.ts'
import type { FieldPath } from '../src/config/types.ts'
import { defaultAsText, FIELD_PATHS, fieldAt } from '../src/config/values.ts'

const INTRODUCTION = `# Configuration

The file of \`--config\` is a KubeProxyConfiguration (\`kubeproxy.config.k8s.io/v1alpha1\`), the file of kube-proxy. kube-ipvs reads
every field of kube-proxy 1.37; fields under \`kubeIPVS\` are its own, and kube-proxy ignores them with a line in its log.
\`--write-config-to FILE\` writes the configuration as it would be used.

Without a file every flag counts. Beside a file, of the flags below only \`--hostname-override\` counts, with the flags of \`logging\`
and \`kubeIPVS\`; kube-proxy has the same rule for its own. A warning names those that were given in vain. Of a file with several
documents only the first counts, as in kube-proxy.

The file is read again when its content changes. In the tables the columns of the two modes say what a changed value does:

- _live_: the running proxy applies it.
- _restart_: the process ends with exit code 1, so that a new one reads the file.
- _none_: the field has no effect in this mode.

A broken file is reported, and the configuration in force stays.

This file is generated from \`src/config/fields.ts\`.`

/** How a value of each kind is written in the file. */
const KIND_TEXT: Readonly<Record<Kind, string>> = {
  text: 'text',
  address: 'IP address',
  addressPort: 'IP:port',
  boolean: 'boolean',
  int32: 'number',
  nonZeroInt32: 'number',
  float32: 'number',
  level: 'number',
  duration: 'duration',
  optionalText: 'text',
  optionalDuration: 'duration',
  flushFrequency: 'duration, or nanoseconds as a number',
  texts: 'list of texts',
  optionalTexts: 'list of texts',
  gates: 'map of booleans',
  vmodule: 'list of `filePattern` and `verbosity`',
  quantity: 'size',
}

const UNUSED = 'Fields without effect'
const TOP = 'Top level'

const SECTIONS: Readonly<Record<string, string>> = {
  [TOP]: '',
  ipvs:
    'A changed `scheduler` reaches each virtual server in place. Linux takes the old one from it first, so for some milliseconds the kernel refuses new ' +
    'connections there, whatever program changes it: 8 of 352 in a loop of changes, none of 839 without.',
  iptables: '`masqueradeAll` and `masqueradeBit` also count in ipvs mode.',
  detectLocal: '',
  clientConnection: 'How kube-ipvs talks to the API server.',
  logging: 'The log on standard error.',
  conntrack: 'The connection tracking table of the kernel.',
  kubeIPVS: 'Fields that kube-proxy does not have.',
  [UNUSED]:
    'These are accepted because files are shared with other proxies. A value other than the default is reported at the start.',
}

/** The whole document. */
export function configurationReference(): string {
  const sections = Map.groupBy(FIELD_PATHS, sectionOf)
  const texts = Object.entries(SECTIONS).map(([title, note]) => {
    const head = title === TOP || title === UNUSED ? title : `\`${title}\``
    const rows = (sections.get(title) ?? []).map(rowOf)
    return `## ${head}\n\n${note === '' ? '' : `${note}\n\n`}${markdownTable([HEADER, ...rows])}`
  })
  return `${[INTRODUCTION, ...texts].join('\n\n')}\n`
}

function sectionOf(path: FieldPath): string {
  if (hasNoEffect(path)) return UNUSED
  return path.includes('.') ? path.replace(/\..*$/, '') : TOP
}

const HEADER = ['field', 'value', 'default', 'ipvs mode', 'iptables mode', 'flag', 'meaning']

function rowOf(path: FieldPath): readonly string[] {
  const row = fieldAt(path)
  const { kind, doc, flag, unit, defaultText } = row
  const fallback = defaultAsText(path)
  const rule = ruleOf(row)
  return [
    `\`${path}\``,
    KIND_TEXT[kind],
    defaultText ?? (fallback === '' || fallback === '[]' ? '' : `\`${fallback}\``),
    consequenceOf(path, 'ipvs'),
    consequenceOf(path, 'iptables'),
    flag === undefined ? '' : `\`${flag.name.length === 1 ? '-' : '--'}${flag.name}\``,
    [doc, ...(unit === undefined ? [] : [`Unit: ${unit}.`]), ...(rule === '' ? [] : [`Rule: ${rule}.`])].join(' '),
  ]
}

/** Feature gates are judged one by one. */
function consequenceOf(path: FieldPath, mode: ProxyMode): Consequence | 'restart or none' {
  return path === 'featureGates' ? 'restart or none' : fieldAt(path).reload[mode]
}

/** The rule of a field in words; empty where every value of its kind is right. */
export function ruleOf({ rule, ruleText, words }: Field): string {
  if (ruleText !== undefined) return ruleText
  if (words !== undefined) return words.join(', ')
  switch (rule) {
    case undefined:
      return ''
    case 'notNegative':
      return '0 or more'
    case 'positive':
      return 'more than 0'
    case 'address':
      return 'an IP address'
    case 'addressPort':
      return 'address:port'
    case 'cidrs':
      return 'CIDRs; host bits may be set'
    case 'socketPath':
      return 'an absolute path of at most 107 bytes, or empty'
    default:
      return rule.join(' to ')
  }
}

/** A Markdown table with aligned columns; the first row is the head. */
export function markdownTable(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`
  return rows
    .map(line)
    .toSpliced(1, 0, line(widths.map((width) => '-'.repeat(width))))
    .join('\n')
}
