/** A part of the evidence: something that a sceptic asks and that `npm run evidence` answers. */

export interface PartOptions {
  /** For parts that measure as long as they are told to; each has a default. */
  readonly hours: number | undefined
  /** Aborted when the command is to end. */
  readonly signal: AbortSignal
}

/** What a part has measured. `problems` fail the command; everything else is kept as data. */
export interface PartResult {
  /** One sentence each; empty when all that could be asked is as it should be. */
  readonly problems: readonly string[]
  /** A table of the page: rows that have the same names. */
  readonly table?: readonly Readonly<Record<string, string | number>>[]
  readonly [figure: string]: unknown
}

export interface Part {
  /** Names the file of its results and the option of the command. */
  readonly name: string
  /** Half a sentence. */
  readonly purpose: string
  readonly run: (options: PartOptions) => Promise<PartResult>
}

/** The content of `docs/evidence/NAME.json`. */
export interface PartRecord {
  readonly part: string
  readonly purpose: string
  /** What measures it again. */
  readonly command: string
  /** ISO 8601. */
  readonly measuredAt: string
  /** The commit, with a `+` when the checkout had other changes. */
  readonly commit: string
  readonly machine: string
  readonly seconds: number
  readonly result: PartResult
}
