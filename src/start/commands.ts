/** The commands, what each takes beside flags, and the groups of commands that share flags. */

export const COMMANDS = ['run', 'status', 'explain', 'top', 'drain', 'diff', 'doctor', 'cleanup', 'completion'] as const
/** `run` is the daemon: the command when none is named. */
export type CommandName = (typeof COMMANDS)[number]

/** What a command takes beside flags. */
export interface Arguments {
  /** The placeholder in its usage: `NAMESPACE/NAME`. */
  readonly name: string
  /** Default 0. */
  readonly atLeast?: number
  /** Default: any number. */
  readonly atMost?: number
  /** Every allowed word, where they are few. */
  readonly words?: readonly string[]
}

/** The shells whose completion there is. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

/** The commands that take words beside flags; the others refuse them. */
export const COMMAND_ARGUMENTS: { readonly [command in CommandName]?: Arguments } = {
  status: { name: 'NAMESPACE/NAME' },
  explain: { name: 'TARGET', atLeast: 1, atMost: 1 },
  top: { name: 'NAMESPACE[/NAME]', atMost: 1 },
  // It is told how to drain an endpoint.
  drain: { name: 'ENDPOINT' },
  completion: { name: 'SHELL', atLeast: 1, atMost: 1, words: SHELLS },
}

export const RUN = ['run'] as const
/** Commands that need a configuration. */
export const CONFIGURED = ['run', 'diff'] as const
/** Commands that list Services. */
export const LISTING = ['run', 'diff', 'status', 'explain', 'doctor'] as const
/** Commands that ask the running daemon. */
export const ASKING = ['run', 'diff', 'status', 'explain', 'top', 'drain', 'doctor'] as const
/** Commands that take the flags for logging. */
export const LOGGING = ['run', 'status', 'explain', 'diff', 'doctor', 'cleanup'] as const
/** Commands that look at the node or change it. */
export const ALL = ['run', 'status', 'explain', 'top', 'drain', 'diff', 'doctor', 'cleanup'] as const
