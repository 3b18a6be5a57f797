/**
 * Errors with a stable `code`, so that no code compares message texts, and problems of objects,
 * which are values. Codes are part of the metrics and of `--output json`: do not rename one.
 */

/** Base of every error that this program throws on purpose. Programs may rely on `code`; the message may change. */
export class CodedError extends Error {
  readonly code: string
  /**
   * What to do about it in this very case, where that is known: one sentence, beside a message
   * whose words are kube-proxy's.
   */
  readonly advice: string | undefined

  constructor(code: string, message: string, options?: ErrorOptions & { readonly advice?: string | undefined }) {
    super(message, options)
    this.name = new.target.name
    this.code = code
    this.advice = options?.advice
  }
}

/**
 * What a problem is about: an object of the cluster or of a manifest, which its owner can correct;
 * a setting of the kernel that could not be written, so that Services work less well; this node; or
 * the configuration of this program.
 */
export type ProblemAbout = 'object' | 'setting' | 'node' | 'configuration'

/**
 * Something wrong with one object or one field of it: reported, never thrown past the object it
 * belongs to. `subject` names the object (`demo/web`, `file.yaml:12`), `field` the path inside it
 * (`spec.ports[0].port`).
 */
export interface Problem {
  readonly code: string
  readonly about: ProblemAbout
  readonly subject: string
  readonly field?: string
  readonly message: string
}

/** The kernel lacks a feature, and something was done without what needs it. */
export class MissingFeature extends CodedError {
  readonly feature: string
  /** What brings the feature: `module xt_ipvs`. */
  readonly remedy: string

  constructor(code: string, feature: string, remedy: string, message: string) {
    super(code, message)
    this.feature = feature
    this.remedy = remedy
  }
}

/**
 * What `open` resolves to; undefined when it rejects with this code, because the kernel or the node
 * does not have it.
 */
export function unlessMissing<T>(code: string, open: () => Promise<T>): Promise<T | undefined> {
  return Promise.resolve()
    .then(open)
    .catch((error: unknown) => {
      if (error instanceof CodedError && error.code === code) return undefined
      throw error
    })
}

/** What was thrown, as an error. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}

/** The message of what was thrown. */
export function errorText(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}

/**
 * Several messages as one text: a single one unchanged, more in brackets, as Kubernetes'
 * utilerrors.Aggregate prints them.
 */
export function aggregateText(texts: readonly string[]): string {
  return texts.length === 1 ? texts.join('') : `[${texts.join(', ')}]`
}

/** One line for a person: subject, field and reason. */
export function formatProblem(problem: Problem): string {
  return `${problem.subject}: ${problem.field === undefined ? '' : `${problem.field}: `}${problem.message}`
}

/** The most problems of one object; the last one says how many more there are. */
const MAX_PROBLEMS = 20

const NONE: readonly Problem[] = []

/** The problems of one object. Only the first ones are kept, since a single object can have thousands. */
export class ProblemList {
  #problems: Problem[] | undefined
  #dropped = 0

  get problems(): readonly Problem[] {
    return this.#problems ?? NONE
  }

  add(problem: Problem): void {
    this.#problems ??= []
    if (this.#problems.length < MAX_PROBLEMS) {
      this.#problems.push(problem)
      return
    }
    this.#dropped++
    const message = `and ${this.#dropped + 1} more problems`
    const { about, subject } = problem
    this.#problems[MAX_PROBLEMS - 1] = { code: 'more-problems', about, subject, message }
  }
}
