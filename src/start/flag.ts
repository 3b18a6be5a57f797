/** What a row of the table of flags (flags.ts) says. */
import type { FlagGroup, KindValues } from '../config/field.ts'
import type { CommandName } from './commands.ts'

/** What each kind of flag becomes: the kinds of configuration fields, and two more. */
export interface FlagKinds extends KindValues {
  version: string
  output: 'text' | 'json'
}

export interface Flag {
  /** Name on the command line, without dashes. */
  readonly name: string
  /** One letter that does the same after a single dash. */
  readonly short?: string | undefined
  readonly kind: keyof FlagKinds
  readonly commands: readonly CommandName[]
  /** What to use instead; written to standard error each time. */
  readonly deprecated?: string
  /** True for flags that kube-proxy does not have. */
  readonly own?: boolean
  /**
   * True for flags that kube-proxy 1.37 does not have any more: accepted for older command lines,
   * and shown only where they are given.
   */
  readonly isGone?: boolean
  readonly group: FlagGroup
  /** Placeholder of the value in help; '' for a boolean. */
  readonly value?: string | undefined
  /** Instead of `value`, where the flag means something else to a command. */
  readonly values?: { readonly [command in CommandName]?: string } | undefined
  /** Every allowed value, where they are few words. */
  readonly words?: readonly string[] | undefined
  readonly help: string
  /** Instead of `help`, where the flag means something else to a command. */
  readonly about?: { readonly [command in CommandName]?: string } | undefined
  /** The default, as /flagz shows it. */
  readonly default?: string | undefined
  /** The default as help shows it, where the text of /flagz does not explain it. */
  readonly defaultHelp?: string | undefined
}
