/**
 * Credentials of an exec plugin: kept until they expire or the server refuses them, and never fetched by two processes at a
 * time, however many callers wait. Each of our watches tries again by itself, and a plugin that hangs would pile up.
 */
import { type ExecCredentials, type ExecPlugin, parseExecCredential, type RunPlugin } from './exec-plugin.ts'

interface Run {
  readonly key: string
  readonly result: Promise<ExecCredentials>
}

export class ExecLogin {
  readonly #runPlugin: RunPlugin
  readonly #clock: () => number
  #kept: { readonly key: string; readonly credentials: ExecCredentials } | undefined
  #run: Run | undefined

  /** `clock`: milliseconds since the epoch. */
  constructor(runPlugin: RunPlugin, clock: () => number = Date.now) {
    this.#runPlugin = runPlugin
    this.#clock = clock
  }

  /** Rejects with an Error that says what the plugin did wrong. */
  async credentials(plugin: ExecPlugin): Promise<ExecCredentials> {
    const key = JSON.stringify(plugin)
    for (;;) {
      if (this.#kept?.key === key && this.#isFresh(this.#kept.credentials)) return this.#kept.credentials
      if (this.#run === undefined) return this.#begin(key, plugin)
      if (this.#run.key === key) return this.#run.result
      // The kubeconfig changed while the plugin of the old one runs.
      await this.#run.result.catch(() => undefined)
    }
  }

  /** The server refused them. What is being fetched just now is not what it refused. */
  invalidate(): void {
    if (this.#run === undefined) this.#kept = undefined
  }

  #isFresh({ expiresAtMs }: ExecCredentials): boolean {
    return expiresAtMs === undefined || this.#clock() <= expiresAtMs
  }

  #begin(key: string, plugin: ExecPlugin): Promise<ExecCredentials> {
    this.#kept = undefined
    const result = this.#fetch(plugin).then(
      (credentials) => {
        this.#run = undefined
        this.#kept = { key, credentials }
        return credentials
      },
      (error: unknown) => {
        this.#run = undefined
        throw error
      },
    )
    this.#run = { key, result }
    return result
  }

  async #fetch(plugin: ExecPlugin): Promise<ExecCredentials> {
    const { command, args, env, installHint } = plugin
    const result = await this.#runPlugin({ command, args, env })
    if (result === undefined)
      throw new Error(`exec: executable ${command} not found${installHint === '' ? '' : `: ${installHint}`}`)
    const { exitCode, output, errorText } = result
    if (exitCode !== 0)
      throw new Error(`exec: executable ${command} failed with exit code ${exitCode}: ${errorText.trim()}`)
    return parseExecCredential(plugin, output)
  }
}
