/**
 * How a v1alpha1 document is read: the zod schema, made from the table of fields. Go reads null as
 * "not given" for everything but plain durations.
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

/** The fields of a block, for messages about unknown ones. */
export interface Shape {
  readonly fields?: Readonly<Record<string, Shape>> | undefined
}

interface DocumentType extends Shape {
  readonly schema: z.ZodType
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
  filePattern: { schema: text('') },
  verbosity: { schema: level(0) },
}

/** The schema of a field that falls back on a value when the document does not give it. */
const KINDS: { readonly [K in Kind]: (fallback: KindValues[K]) => z.ZodType } = {
  text,
  address: text,
  addressPort: text,
  optionalText: (fallback) =>
    z
      .string()
      .nullish()
      .transform((value) => value ?? fallback),
  boolean: (fallback) =>
    z
      .boolean()
      .nullish()
      .transform((value) => value ?? fallback),
  int32: (fallback) =>
    z
      .int32()
      .nullish()
      .transform((value) => value ?? fallback),
  nonZeroInt32: (fallback) =>
    z
      .int32()
      .nullish()
      .transform((value) => value || fallback),
  float32: (fallback) =>
    z
      .number()
      .min(-MAX_FLOAT32)
      .max(MAX_FLOAT32)
      .nullish()
      .transform((value) => shortFloat32(value ?? 0) || fallback),
  level,
  // Go reads null as '', which is no duration.
  duration: (fallback) =>
    z
      .preprocess((value) => (value === null ? '' : value), durationText.optional())
      .transform((milliseconds) => milliseconds || fallback),
  optionalDuration: (fallback) => durationText.nullish().transform((milliseconds) => milliseconds ?? fallback),
  flushFrequency: (fallback) =>
    z
      .union(
        [
          z.int().transform((nanoseconds) => ({ milliseconds: nanoseconds / 1e6, asNumber: true })),
          durationText.transform((milliseconds) => ({ milliseconds, asNumber: false })),
        ],
        // What is wrong with a text is known more exactly.
        {
          error: ({ input }) =>
            (typeof input === 'string' ? durationText.safeParse(input).error?.issues[0]?.message : undefined) ??
            'expected a duration, or nanoseconds as a number',
        },
      )
      .nullish()
      .transform(
        (given): FlushFrequency =>
          given === undefined || given === null || given.milliseconds === 0
            ? { milliseconds: fallback, asNumber: false }
            : given,
      ),
  // Go reads a null in the list as ''.
  texts: (fallback) =>
    z
      .array(z.string().nullable())
      .nullish()
      .transform((list) => (list?.length === 0 ? GIVEN_EMPTY : (list?.map((item) => item ?? '') ?? fallback))),
  optionalTexts: (fallback) =>
    z
      .array(z.string())
      .nullish()
      .transform((list) => list ?? fallback),
  gates: (fallback) =>
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
  vmodule: (fallback) =>
    z
      .array(blockSchema(VMODULE_ITEM))
      .nullish()
      .transform((list) => list ?? fallback),
  quantity: (fallback) =>
    z
      .union([z.string(), z.number()], { error: 'expected a size' })
      .nullish()
      .transform((size, context) => {
        const parsed = parseQuantity(String(size ?? fallback).trim())
        if ('value' in parsed) return parsed.value
        context.addIssue({ code: 'custom', message: parsed.error, input: size })
        return z.NEVER
      }),
}

const leaf = <K extends Kind>({ kind, default: fallback }: Field<K>): DocumentType => ({
  schema: KINDS[kind](fallback),
})

/** Absent and null both mean that all fields are absent. */
function blockSchema(fields: Readonly<Record<string, DocumentType>>): z.ZodType {
  const schemas = Object.entries(fields).map(([name, { schema }]) => [name, schema])
  return z.preprocess((value) => value ?? {}, z.strictObject(Object.fromEntries(schemas)))
}

/** The block of the given paths, which begin with the prefix. */
function block(
  prefix: string,
  paths: readonly FieldPath[],
  more: Readonly<Record<string, DocumentType>> = {},
): DocumentType {
  const fields: Record<string, DocumentType> = { ...more }
  for (const [name = '', inner] of Map.groupBy(paths, (path) => path.slice(prefix.length).split('.')[0])) {
    const path = prefix + name
    const [only] = inner
    fields[name] = only === path ? leaf(fieldAt(only)) : block(`${path}.`, inner)
  }
  return { fields, schema: blockSchema(fields) }
}

const WORD: DocumentType = { schema: text('') }

let made: WeakRef<DocumentType> | undefined

/** The whole document. Nothing keeps it between readings: it has a megabyte, and a daemon rarely reads. */
export function documentShape(): DocumentType {
  const known = made?.deref()
  if (known !== undefined) return known
  const shape = block('', FIELD_PATHS, { apiVersion: WORD, kind: WORD })
  made = new WeakRef(shape)
  return shape
}

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
