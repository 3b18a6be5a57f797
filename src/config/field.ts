/**
 * What a field of the configuration is: its zod schema, its documentation, and the Go type it has in Kubernetes, which
 * recorded error texts name.
 * What could break: Go reads null as "not given" for everything but plain durations; `go` is text that operators see.
 */
import * as z from 'zod'
import { parseDuration } from './duration.ts'
import { shortFloat32 } from './go-text.ts'
import { parseQuantity } from './quantity.ts'

// Without this zod compiles parsers with `new Function`, which costs more than one parse gains.
z.config({ jitless: true })

/** What is said of a field in documentation. `rule` is checked in validate.ts, logging.ts or by the field's type. */
export interface FieldNotes {
  readonly doc: string
  readonly unit?: string
  /** As it would be written. Absent: the type's own zero (`''`, `0`, `false`, an empty list). */
  readonly default?: string
  readonly rule?: string
}

export interface Field<Schema extends z.ZodType = z.ZodType> extends FieldNotes {
  readonly schema: Schema
  /** The Go type, as encoding/json names it: `string`, `v1alpha1.ProxyMode`. */
  readonly go: string
  /** The name in Go's error texts, where it is not the field's own. */
  readonly goName?: string
  /** Types that read themselves: their errors end the decoding and stand alone. */
  readonly reads?: 'duration' | 'flushFrequency' | 'quantity'
  /** Of a list or map: what stands in it. */
  readonly item?: Field
  /** Of a block: what stands in it. */
  readonly fields?: Readonly<Record<string, Field>>
}

const word = z
  .string()
  .nullish()
  .transform((value) => value ?? '')

export const text = (notes: FieldNotes, go = 'string') => ({ ...notes, go, schema: word })

export const textOr = (fallback: string, notes: FieldNotes) => ({
  ...notes,
  default: fallback,
  go: 'string',
  schema: word.transform((value) => value || fallback),
})

export const flag = (notes: FieldNotes, fallback = false) => ({
  ...notes,
  default: String(fallback),
  go: 'bool',
  schema: z
    .boolean()
    .nullish()
    .transform((value) => value ?? fallback),
})

const TEXT_ITEM: Field = { doc: '', go: 'string', schema: z.string() }

/** A list that was given without anything in it, which Go writes as `[]`; one that was not given is `null` there. */
export const GIVEN_EMPTY: readonly string[] = []

/** A list of texts; Go reads a null in it as ''. */
export const texts = (notes: FieldNotes) => ({
  ...notes,
  go: '[]string',
  item: TEXT_ITEM,
  schema: z
    .array(z.string().nullable())
    .nullish()
    .transform((list): readonly string[] =>
      list?.length === 0 ? GIVEN_EMPTY : (list ?? []).map((item) => item ?? ''),
    ),
})

/** An int32 that knows "not given" from 0 (a pointer in Go). */
export const int32 = (fallback: number, notes: FieldNotes) => ({
  ...notes,
  default: String(fallback),
  go: 'int32',
  schema: z
    .int32()
    .nullish()
    .transform((value) => value ?? fallback),
})

/** An int32 for which 0 means "not given" (a plain value in Go with a default). */
export const nonZeroInt32 = (fallback: number, notes: FieldNotes) => ({
  ...notes,
  default: String(fallback),
  go: 'int32',
  schema: z
    .int32()
    .nullish()
    .transform((value) => value || fallback),
})

const MAX_FLOAT32 = 3.4028234663852886e38

export const nonZeroFloat32 = (fallback: number, notes: FieldNotes) => ({
  ...notes,
  default: String(fallback),
  go: 'float32',
  schema: z
    .number()
    .min(-MAX_FLOAT32)
    .max(MAX_FLOAT32)
    .nullish()
    .transform((value) => shortFloat32(value ?? 0) || fallback),
})

/** klog's verbosity: a uint32. */
export const level = (notes: FieldNotes) => ({
  ...notes,
  default: '0',
  go: 'v1.VerbosityLevel',
  schema: z
    .uint32()
    .nullish()
    .transform((value) => value ?? 0),
})

const durationText = z.string().transform((value, context) => {
  const parsed = parseDuration(value)
  if ('milliseconds' in parsed) return parsed.milliseconds
  context.addIssue({ code: 'custom', message: parsed.error, input: value })
  return z.NEVER
})

/** A duration in milliseconds for which 0 means `fallbackMs`. Go refuses null here: it reads it as ''. */
export const duration = (notes: FieldNotes, fallbackMs = 0) => ({
  ...notes,
  unit: 'duration',
  go: 'string',
  reads: 'duration' as const,
  schema: z
    .preprocess((value) => (value === null ? '' : value), durationText.optional())
    .transform((ms) => ms || fallbackMs),
})

/** A duration that knows "not given" from 0. */
export const optionalDuration = (fallbackMs: number, notes: FieldNotes) => ({
  ...notes,
  unit: 'duration',
  go: 'string',
  reads: 'duration' as const,
  schema: durationText.nullish().transform((ms) => ms ?? fallbackMs),
})

/** Nanoseconds as a whole number, or a duration as text (component-base TimeOrMetaDuration); 0 means the default. */
export const flushFrequency = (fallbackMs: number, notes: FieldNotes) => ({
  ...notes,
  unit: 'duration, or nanoseconds as a number',
  go: 'string',
  reads: 'flushFrequency' as const,
  schema: z
    .union([
      z.int().transform((nanoseconds) => ({ milliseconds: nanoseconds / 1e6, asNumber: true })),
      durationText.transform((milliseconds) => ({ milliseconds, asNumber: false })),
    ])
    .nullish()
    .transform((given) =>
      given === undefined || given === null || given.milliseconds === 0
        ? { milliseconds: fallbackMs, asNumber: false }
        : given,
    ),
})

export const quantity = (notes: FieldNotes) => ({
  ...notes,
  default: '0',
  go: 'string',
  reads: 'quantity' as const,
  schema: z
    .union([z.string(), z.number()])
    .nullish()
    .transform((size, context) => {
      const parsed = parseQuantity(String(size ?? '0').trim())
      if ('value' in parsed) return parsed.value
      context.addIssue({ code: 'custom', message: parsed.error, input: size })
      return z.NEVER
    }),
})

/** `{ name: true }` */
export const gates = (notes: FieldNotes) => ({
  ...notes,
  go: 'map[string]bool',
  item: { doc: '', go: 'bool', schema: z.boolean() },
  schema: z
    .record(
      z.string(),
      z
        .boolean()
        .nullable()
        .transform((value) => value ?? false),
    )
    .nullish()
    .transform((values) => values ?? {}),
})

type Shape<Fields extends Readonly<Record<string, Field>>> = { [Name in keyof Fields]: Fields[Name]['schema'] }

function shapeOf<Fields extends Readonly<Record<string, Field>>>(fields: Fields): Shape<Fields> {
  const entries = Object.entries(fields).map(([name, { schema }]) => [name, schema])
  return Object.fromEntries(entries) as Shape<Fields> // fromEntries forgets which key has which value
}

/** A part of the document: absent and null both mean that all its fields are absent. */
export const block = <Fields extends Readonly<Record<string, Field>>>(go: string, doc: string, fields: Fields) => ({
  doc,
  go,
  fields,
  schema: z.preprocess((value) => value ?? {}, z.strictObject(shapeOf(fields))),
})

/** A list of blocks. */
export const blocks = <Fields extends Readonly<Record<string, Field>>>(
  go: string,
  notes: FieldNotes,
  item: { readonly go: string; readonly fields: Fields },
) => ({
  ...notes,
  go,
  item: { doc: '', ...item, schema: z.unknown() },
  schema: z
    .array(z.preprocess((value) => value ?? {}, z.strictObject(shapeOf(item.fields))))
    .nullish()
    .transform((list) => list ?? []),
})
