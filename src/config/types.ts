/**
 * The types of a configuration, made from the table of fields: the names of v1alpha1 as nested
 * objects, every field present, and durations in milliseconds under keys that end in `Ms`.
 */
import type { DurationKind, KindValues, ProxyMode } from './field.ts'
import type { FIELDS } from './fields.ts'

export type { ProxyMode, VmoduleItem } from './field.ts'

type Fields = typeof FIELDS

/** `ipvs.scheduler` */
export type FieldPath = keyof Fields

/** Fields with a flag. */
export type FlagPath = { [Path in FieldPath]: Fields[Path] extends { flag: object } ? Path : never }[FieldPath]

/** Fields whose new values a running proxy applies in at least one mode. */
export type LivePath = {
  [Path in FieldPath]: 'live' extends Fields[Path]['reload'][ProxyMode] ? Path : never
}[FieldPath]

/** Whether a field of few words is known to hold one of them, or may still hold any text. */
type Unchecked = 'unchecked'
type Checked = 'checked'

type Value<Path extends FieldPath, State> = State extends Checked
  ? Fields[Path] extends { words: readonly (infer Word)[] }
    ? Word
    : KindValues[Fields[Path]['kind']]
  : KindValues[Fields[Path]['kind']]

/** What the command line, a file or a default may say for some fields. */
export type FieldValues = { readonly [Path in FieldPath]?: Value<Path, Unchecked> }

type FirstName<Path extends string> = Path extends `${infer Name}.${string}` ? Name : Path
type NamesBelow<Prefix extends string> = FieldPath extends infer Path
  ? Path extends `${Prefix}${infer Rest}`
    ? FirstName<Rest>
    : never
  : never
type Key<Path extends string, Name extends string> = Path extends FieldPath
  ? Fields[Path]['kind'] extends DurationKind
    ? `${Name}Ms`
    : Name
  : Name

/** The block whose paths begin with the prefix, which is empty or ends in a dot. */
type Block<Prefix extends string, State> = {
  readonly [Name in NamesBelow<Prefix> as Key<`${Prefix}${Name}`, Name>]: `${Prefix}${Name}` extends FieldPath
    ? Value<`${Prefix}${Name}`, State>
    : Block<`${Prefix}${Name}.`, State>
}

/** Facts about how a configuration was given that its values do not show. */
interface Spelling {
  readonly logging: {
    /** It was given as a number of nanoseconds, and is written back as one. */
    readonly flushFrequencyAsNumber: boolean
  }
  /** Given as a flag, where '' is not the same as none. */
  readonly clusterCIDRGiven?: boolean
  /**
   * The file has a block kubeIPVS, even an empty one; without a file, a flag of it was given. So
   * the configuration is for this program.
   */
  readonly kubeIPVSGiven?: boolean
  /** Neither the file nor a flag says which mode. */
  readonly modeIsDefault?: boolean
}

/** A configuration to run with. */
export type KubeProxyConfiguration = Block<'', Checked> & Spelling

/** A configuration whose words are not checked yet: fields that allow only a few words may hold any text. */
export type UncheckedConfiguration = Block<'', Unchecked> & Spelling

export type DetectLocalMode = KubeProxyConfiguration['detectLocalMode']
/** Size and timeouts of the connection tracking table. */
export type ConntrackSettings = KubeProxyConfiguration['conntrack']
/** What only kube-ipvs has. */
export type KubeIpvsSettings = KubeProxyConfiguration['kubeIPVS']
