/**
 * What a row of the table of fields (fields.ts) says, and the kinds of values that a field may
 * hold. Kinds and rules are words, not code, so that the command line and `--help` read the table
 * without loading the schemas.
 */

export type ProxyMode = 'ipvs' | 'iptables'

/** The verbosity of source files whose name matches the pattern. */
export interface VmoduleItem {
  readonly filePattern: string
  readonly verbosity: number
}

/**
 * What the program holds for each kind. A kind also decides how a file and a flag are read.
 */
export interface KindValues {
  text: string
  /** '' in a file is a value like any other (a pointer in Go). */
  optionalText: string
  /** An IP address; the flag is checked, and kept as written. An empty flag counts as not given. */
  address: string
  /** `IP:port`, or an address alone. An empty flag counts as not given. */
  addressPort: string
  boolean: boolean
  int32: number
  /** 0 in a file means the default (a plain int32 in Go; the others are pointers). */
  nonZeroInt32: number
  /** 0 in a file means the default. */
  float32: number
  /** A log level, 0 to 2^31-1 as a flag and 0 to 2^32-1 in a file. */
  level: number
  /** Milliseconds; 0 in a file means the default, and null is refused. */
  duration: number
  /** Milliseconds; 0 is a value like any other (a pointer in Go). */
  optionalDuration: number
  /** Milliseconds; a file may also give nanoseconds as a number (TimeOrMetaDuration of component-base). */
  flushFrequency: number
  /** Repeated flags add up. */
  texts: readonly string[]
  /** The same, but an empty list differs from none, which is undefined. */
  optionalTexts: readonly string[] | undefined
  /** Repeated flags add up. */
  gates: Readonly<Record<string, boolean>>
  /** Repeated flags add up. */
  vmodule: readonly VmoduleItem[]
  /** A size as Kubernetes writes it: `512`, `2Ki`. */
  quantity: string
}

export type Kind = keyof KindValues

/** Kinds whose fields hold milliseconds, under a key that ends in `Ms`. */
export type DurationKind = 'duration' | 'optionalDuration' | 'flushFrequency'

/**
 * What a changed field means to a running proxy: it applies the new value, it ends so that a new
 * process reads it, or the field has no effect in this mode.
 */
export type Consequence = 'live' | 'restart' | 'none'

export type Reload = Readonly<Record<ProxyMode, Consequence>>

export const LIVE = { ipvs: 'live', iptables: 'live' } as const
export const RESTART = { ipvs: 'restart', iptables: 'restart' } as const
export const NO_EFFECT = { ipvs: 'none', iptables: 'none' } as const
export const IN_IPVS_MODE = { ipvs: 'restart', iptables: 'none' } as const
export const LIVE_IN_IPVS_MODE = { ipvs: 'live', iptables: 'none' } as const
export const IN_IPTABLES_MODE = { ipvs: 'none', iptables: 'restart' } as const
export const LIVE_IN_IPTABLES_MODE = { ipvs: 'none', iptables: 'live' } as const
/** Live in ipvs mode only: iptables mode has a rule that depends on it. */
export const LIVE_BUT_FOR_RULES = { ipvs: 'live', iptables: 'restart' } as const

/** Rules of single values, checked by `validate.ts`. A pair is the range of a number. */
export type Rule =
  | 'notNegative'
  | 'positive'
  | 'address'
  | 'addressPort'
  | 'cidrs'
  | 'socketPath'
  | readonly [low: number, high: number]

/** Groups of `--help`; `unused` is for flags without any effect. */
export type FlagGroup =
  | 'first'
  | 'once'
  | 'modes'
  | 'addresses'
  | 'api'
  | 'ports'
  | 'process'
  | 'conntrack'
  | 'own'
  | 'unused'

export interface FieldFlag {
  /** Without dashes. */
  readonly name: string
  /** One letter that does the same after a single dash. */
  readonly short?: string
  readonly group: FlagGroup
  /** Placeholder of the value in help, where the kind does not say enough. */
  readonly value?: string
  /** What kube-proxy shows as the flag's default, where it is not the default of the field. */
  readonly default?: string
  /** The flag also counts with --config; kube-proxy ignores most flags then. */
  readonly appliesWithFile?: true
}

export interface FieldNotes {
  /** For the reference and for --help. */
  readonly doc: string
  /** The default in words, where the value itself does not explain it. */
  readonly defaultText?: string
  readonly unit?: string
  readonly rule?: Rule
  /** The rule in words, where a function of validate.ts checks it. */
  readonly ruleText?: string
  /** The only values; other words are refused by validate.ts. */
  readonly words?: readonly string[]
  readonly flag?: FieldFlag
  /** kube-proxy checks the type and forgets the value, so a file cannot set it. */
  readonly lostFromFile?: true
  /** Whether the field is written back. Absent: always. `unlessDefault` is Go's omitempty. */
  readonly written?: 'unlessDefault' | 'never'
}

export interface Field<K extends Kind = Kind> extends FieldNotes {
  readonly kind: K
  readonly default: KindValues[K]
  readonly reload: Reload
}

/** Refuses notes that a row does not have: a generic parameter alone would accept misspelt names. */
type OnlyNotes<Notes> = { readonly [Name in Exclude<keyof Notes, keyof FieldNotes>]: never }

/** One row of the table. */
export function field<const K extends Kind, const R extends Reload, const Notes extends FieldNotes>(
  kind: K,
  fallback: KindValues[K],
  reload: R,
  notes: Notes & OnlyNotes<Notes>,
) {
  return { kind, default: fallback, reload, ...notes }
}
