/**
 * How a v1alpha1 document is read, made from the table of fields: the zod schema, and the Go types that recorded error texts
 * name. Go reads null as "not given" for everything but plain durations.
 */
import * as z from 'zod'
import { parseDuration } from '../values/duration.ts'
import type { Field, Kind, KindValues } from './field.ts'
import { shortFloat32 } from './go-text.ts'
import { parseQuantity } from './quantity.ts'
import type { FieldPath, UncheckedConfiguration } from './types.ts'
import { configurationOf, FIELD_PATHS, fieldAt, valueAt } from './values.ts'

// Without this zod compiles parsers with `new Function`, which costs more than one parse gains.
z.config({ jitless: true })

export const API_VERSION = 'kubeproxy.config.k8s.io/v1alpha1'
export const KIND = 'KubeProxyConfiguration'

/** What Go's types say of a value in the document. */
export interface GoType {
  /** As encoding/json names it: `string`, `v1alpha1.ProxyMode`. */
  readonly go: string
  /** The name in Go's error texts, where it is not the field's own. */
  readonly goName?: string | undefined
  /** Types that decode themselves in Go: their first error ends the decoding and is the only one reported. */
  readonly reads?: 'duration' | 'flushFrequency' | 'quantity' | undefined
  /** Of a list or map: the type of its items. */
  readonly item?: GoType | undefined
  /** Of a block: the types of its fields. */
  readonly fields?: Readonly<Record<string, GoType>> | undefined
}

interface DocumentType extends GoType {
  readonly schema: z.ZodType
}

type BlockOf<Path extends string> = Path extends `${infer Name}.${infer Rest}`
  ? Name | (Rest extends `${string}.${string}` ? `${Name}.${BlockOf<Rest>}` : never)
  : never

/** Go's names of the blocks. */
const BLOCK_TYPES: Readonly<Record<BlockOf<FieldPath>, string>> = {
  clientConnection: 'v1alpha1.ClientConnectionConfiguration',
  conntrack: 'v1alpha1.KubeProxyConntrackConfiguration',
  detectLocal: 'v1alpha1.DetectLocalConfiguration',
  iptables: 'v1alpha1.KubeProxyIPTablesConfiguration',
  ipvs: 'v1alpha1.KubeProxyIPVSConfiguration',
  kubeIPVS: 'KubeIPVSConfiguration',
  logging: 'v1.LoggingConfiguration',
  'logging.options': 'v1.FormatOptions',
  'logging.options.json': 'v1.JSONOptions',
  'logging.options.text': 'v1.TextOptions',
  nftables: 'v1alpha1.KubeProxyNFTablesConfiguration',
  winkernel: 'v1alpha1.KubeProxyWinkernelConfiguration',
}

/** A list that was given without items, which Go writes as `[]`; one that was not given is `null` there. */
export const GIVEN_EMPTY: readonly string[] = []

const MAX_FLOAT32 = 3.4028234663852886e38

const text = (fallback: string) =>
  z
    .string()
    .nullish()
    .transform((value) => value || fallback)

const level = (fallback: number) =>
  z
    .uint32()
    .nullish()
    .transform((value) => value ?? fallback)

const durationText = z.string().transform((value, context) => {
  const parsed = parseDuration(value)
  if ('milliseconds' in parsed) return parsed.milliseconds
  context.addIssue({ code: 'custom', message: parsed.error, input: value })
  return z.NEVER
})

interface FlushFrequency {
  readonly milliseconds: number
  readonly asNumber: boolean
}

const VMODULE_ITEM: Readonly<Record<string, DocumentType>> = {
  filePattern: { go: 'string', schema: text('') },
  verbosity: { go: 'v1.VerbosityLevel', schema: level(0) },
}

type KindReader<K extends Kind> = Omit<GoType, 'fields'> & {
  /** The schema of a field that falls back on a value when the document does not give it. */
  readonly schema: (fallback: KindValues[K]) => z.ZodType
}

const KINDS: { readonly [K in Kind]: KindReader<K> } = {
  text: { go: 'string', schema: text },
  address: { go: 'string', schema: text },
  addressPort: { go: 'string', schema: text },
  optionalText: {
    go: 'string',
    schema: (fallback) =>
      z
        .string()
        .nullish()
        .transform((value) => value ?? fallback),
  },
  boolean: {
    go: 'bool',
    schema: (fallback) =>
      z
        .boolean()
        .nullish()
        .transform((value) => value ?? fallback),
  },
  int32: {
    go: 'int32',
    schema: (fallback) =>
      z
        .int32()
        .nullish()
        .transform((value) => value ?? fallback),
  },
  nonZeroInt32: {
    go: 'int32',
    schema: (fallback) =>
      z
        .int32()
        .nullish()
        .transform((value) => value || fallback),
  },
  float32: {
    go: 'float32',
    schema: (fallback) =>
      z
        .number()
        .min(-MAX_FLOAT32)
        .max(MAX_FLOAT32)
        .nullish()
        .transform((value) => shortFloat32(value ?? 0) || fallback),
  },
  level: { go: 'v1.VerbosityLevel', schema: level },
  duration: {
    go: 'string',
    reads: 'duration',
    // Go reads null as '', which is no duration.
    schema: (fallback) =>
      z
        .preprocess((value) => (value === null ? '' : value), durationText.optional())
        .transform((milliseconds) => milliseconds || fallback),
  },
  optionalDuration: {
    go: 'string',
    reads: 'duration',
    schema: (fallback) => durationText.nullish().transform((milliseconds) => milliseconds ?? fallback),
  },
  flushFrequency: {
    go: 'string',
    reads: 'flushFrequency',
    schema: (fallback) =>
      z
        .union([
          z.int().transform((nanoseconds) => ({ milliseconds: nanoseconds / 1e6, asNumber: true })),
          durationText.transform((milliseconds) => ({ milliseconds, asNumber: false })),
        ])
        .nullish()
        .transform(
          (given): FlushFrequency =>
            given === undefined || given === null || given.milliseconds === 0
              ? { milliseconds: fallback, asNumber: false }
              : given,
        ),
  },
  texts: {
    go: '[]string',
    item: { go: 'string' },
    // Go reads a null in the list as ''.
    schema: (fallback) =>
      z
        .array(z.string().nullable())
        .nullish()
        .transform((list) => (list?.length === 0 ? GIVEN_EMPTY : (list?.map((item) => item ?? '') ?? fallback))),
  },
  optionalTexts: {
    go: '[]string',
    item: { go: 'string' },
    schema: (fallback) =>
      z
        .array(z.string())
        .nullish()
        .transform((list) => list ?? fallback),
  },
  gates: {
    go: 'map[string]bool',
    item: { go: 'bool' },
    schema: (fallback) =>
      z
        .record(
          z.string(),
          z
            .boolean()
            .nullable()
            .transform((value) => value ?? false),
        )
        .nullish()
        .transform((values) => values ?? fallback),
  },
  vmodule: {
    go: 'v1.VModuleConfiguration',
    item: { go: 'v1.VModuleItem', fields: VMODULE_ITEM },
    schema: (fallback) =>
      z
        .array(blockSchema(VMODULE_ITEM))
        .nullish()
        .transform((list) => list ?? fallback),
  },
  quantity: {
    go: 'string',
    reads: 'quantity',
    schema: (fallback) =>
      z
        .union([z.string(), z.number()])
        .nullish()
        .transform((size, context) => {
          const parsed = parseQuantity(String(size ?? fallback).trim())
          if ('value' in parsed) return parsed.value
          context.addIssue({ code: 'custom', message: parsed.error, input: size })
          return z.NEVER
        }),
  },
}

function leaf<K extends Kind>({ kind, default: fallback, go, goName }: Field<K>): DocumentType {
  const { schema, ...type } = KINDS[kind]
  return { ...type, go: go ?? type.go, goName, schema: schema(fallback) }
}

/** Absent and null both mean that all fields are absent. */
function blockSchema(fields: Readonly<Record<string, DocumentType>>): z.ZodType {
  const schemas = Object.entries(fields).map(([name, { schema }]) => [name, schema])
  return z.preprocess((value) => value ?? {}, z.strictObject(Object.fromEntries(schemas)))
}

/** The block of the given paths, which begin with the prefix. */
function block(
  go: string,
  prefix: string,
  paths: readonly FieldPath[],
  more: Readonly<Record<string, DocumentType>> = {},
): DocumentType {
  const fields: Record<string, DocumentType> = { ...more }
  for (const [name = '', inner] of Map.groupBy(paths, (path) => path.slice(prefix.length).split('.')[0])) {
    const path = prefix + name
    const [only] = inner
    fields[name] = only === path ? leaf(fieldAt(only)) : block(Object(BLOCK_TYPES)[path] ?? '', `${path}.`, inner)
  }
  return { go, fields, schema: blockSchema(fields) }
}

const WORD: DocumentType = { go: 'string', schema: text('') }

/** The whole document. */
export const DOCUMENT = block('v1alpha1.KubeProxyConfiguration', '', FIELD_PATHS, { apiVersion: WORD, kind: WORD })

/** What a document that fits the schema says; nothing but its types was checked. */
export function readDocument(parsed: unknown): UncheckedConfiguration {
  // The schema of its kind makes it so.
  const flush = valueAt(parsed, ['logging', 'flushFrequency']) as FlushFrequency
  const configuration = configurationOf((path) => {
    const row = fieldAt(path)
    if (row.lostFromFile === true) return row.default
    return row.kind === 'flushFrequency' ? flush.milliseconds : valueAt(parsed, path.split('.'))
  })
  return { ...configuration, logging: { ...configuration.logging, flushFrequencyAsNumber: flush.asNumber } }
}
