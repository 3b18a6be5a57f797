/**
 * Makes helm/values.schema.json: the block `config` from the table of configuration fields,
 * everything else from helm/values.yaml. The schema refuses unknown names and wrong types. The
 * rules of configuration fields are not in it, because helm checks the schema first and in words of
 * its own; templates/_validate.tpl checks them in the words of the program.
 */
import { ruleOf } from '../configuration-reference.ts'
import type { Field, Kind } from '../../src/config/field.ts'
import { API_VERSION, KIND } from '../../src/config/schema.ts'
import { FIELD_PATHS, defaultAsText, fieldAt } from '../../src/config/values.ts'
import type { DescribedValue } from './values-file.ts'

type Schema = Readonly<Record<string, unknown>>

const INT32 = { type: ['integer', 'null'], minimum: -0x8000_0000, maximum: 0x7fff_ffff }
const TEXT = { type: ['string', 'null'] }
const LEVEL = { type: ['integer', 'null'], minimum: 0, maximum: 0xffff_ffff }

/** What the program decodes into each kind. It reads null as "not given", but for plain durations. */
const KINDS: Readonly<Record<Kind, Schema>> = {
  text: TEXT,
  address: TEXT,
  optionalText: TEXT,
  addressPort: TEXT,
  boolean: { type: ['boolean', 'null'] },
  int32: INT32,
  nonZeroInt32: INT32,
  float32: { type: ['number', 'null'] },
  level: LEVEL,
  duration: { type: 'string' },
  optionalDuration: { type: ['string', 'null'] },
  flushFrequency: { type: ['string', 'integer', 'null'] },
  texts: { type: ['array', 'null'], items: TEXT },
  optionalTexts: { type: ['array', 'null'], items: { type: 'string' } },
  gates: { type: ['object', 'null'], additionalProperties: { type: ['boolean', 'null'] } },
  vmodule: { type: ['array', 'null'], items: block({ filePattern: TEXT, verbosity: LEVEL }) },
  quantity: { type: ['string', 'number', 'null'] },
}

const STRINGS = { type: 'array', items: { type: 'string' } }
const OBJECTS = { type: 'array', items: { type: 'object' } }
const OPEN = { type: 'object' }

/** What the default in values.yaml does not say of a value: its range, or that Kubernetes knows more names below it. */
const MORE: Readonly<Record<string, Schema>> = {
  'image.digest': { pattern: '^(|sha256:[0-9a-f]{64})$' },
  'image.pullPolicy': { enum: ['Always', 'IfNotPresent', 'Never'] },
  'image.repository': { minLength: 1 },
  'apiServer.port': { minimum: 1, maximum: 65_535 },
  terminationGracePeriodSeconds: { minimum: 1 },
  'podMonitor.interval': { pattern: '^([0-9]+(ms|[smhdwy]))*$' },
  'podMonitor.job': { minLength: 1 },
  'prometheusRule.disabled': STRINGS,
  'dashboard.labels': OPEN,
  imagePullSecrets: OBJECTS,
  extraArgs: { type: 'array', items: { type: 'string', pattern: '^-' } },
  extraEnv: OBJECTS,
  extraVolumes: OBJECTS,
  extraVolumeMounts: OBJECTS,
  capabilities: STRINGS,
  tolerations: OBJECTS,
  resources: OPEN,
  nodeSelector: OPEN,
  updateStrategy: OPEN,
  startupProbe: OPEN,
  livenessProbe: OPEN,
  readinessProbe: OPEN,
}

/** The text of values.schema.json. */
export function valuesSchemaText(values: readonly DescribedValue[]): string {
  const schema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Values of the chart kube-ipvs; generated from src/config/fields.ts and helm/values.yaml',
    // helm adds `global` when the chart is a part of another one.
    ...nested(
      new Map([...values.map((value) => [value.path, valueSchema(value)] as const), ['global', OPEN]]),
      'object',
    ),
  }
  return `${JSON.stringify(schema, undefined, 2)}\n`
}

function valueSchema(value: DescribedValue): Schema {
  const { path, description } = value
  if (path === 'config') return { description, ...configSchema() }
  return { description, ...inferred(value.default), ...MORE[path] }
}

function inferred(value: unknown): Schema {
  if (Array.isArray(value)) return { type: 'array' }
  return { type: typeof value === 'number' ? 'integer' : typeof value, default: value }
}

/** The whole document, as the program reads it. */
function configSchema(): Schema {
  const words = { apiVersion: { const: API_VERSION }, kind: { const: KIND } }
  const fields = FIELD_PATHS.map((path) => [path, fieldSchema(fieldAt(path), defaultAsText(path))] as const)
  return nested(new Map<string, Schema>([...Object.entries(words), ...fields]), ['object', 'null'])
}

function fieldSchema(row: Field, fallback: string): Schema {
  const { kind, doc, unit, words } = row
  const rule = ruleOf(row)
  const description = [
    doc,
    ...(unit === undefined ? [] : [`Unit: ${unit}.`]),
    ...(rule === '' ? [] : [`Rule: ${rule}.`]),
  ]
  const isWritten = fallback !== '' && kind !== 'texts'
  return {
    description: description.join(' '),
    ...KINDS[kind],
    ...(isWritten
      ? { default: KINDS[kind] === TEXT || /duration|flush|quantity/i.test(kind) ? fallback : row.default }
      : {}),
    // No enum: an editor offers these, and a wrong word is refused in the program's words.
    ...(words === undefined ? {} : { examples: words }),
  }
}

function block(properties: Readonly<Record<string, Schema>>, type: unknown = ['object', 'null']): Schema {
  return { type, additionalProperties: false, properties }
}

/** The blocks of schemas by their paths; `type` is that of a block. */
function nested(schemas: ReadonlyMap<string, Schema>, type: unknown): Schema {
  const properties: Record<string, Schema> = {}
  const names = Map.groupBy(schemas.keys(), (path) => path.split('.')[0] ?? '')
  for (const [name, paths] of names) {
    const inner = new Map(paths.map((path) => [path.slice(name.length + 1), schemas.get(path) ?? {}]))
    properties[name] = schemas.get(name) ?? nested(inner, type)
  }
  return block(properties, type)
}
