/**
 * Exec credential plugins of a kubeconfig (clientcmd api ExecConfig): the object in
 * KUBERNETES_EXEC_INFO, the ExecCredential that a plugin prints (client.authentication.k8s.io v1
 * and v1beta1), and credentials that are kept until they expire. Error texts are client-go's,
 * because operators search for them.
 * @impure
 */
import { isAbsolute, join } from 'node:path'
import { describe, isObject, type JsonObject } from '../objects/findings.ts'

/** A plugin's command line and environment. */
export interface PluginCall {
  /** A path, or a name to find in PATH when it has no slash. */
  readonly command: string
  readonly args: readonly string[]
  /** Added to our own environment. */
  readonly env: Readonly<Record<string, string>>
}

/** The result of a plugin that exited by itself. */
export interface PluginResult {
  readonly exitCode: number
  readonly output: string
  readonly errorText: string
}

/**
 * Runs a plugin with closed standard input. Resolves to undefined when the program is missing;
 * rejects when it does not exit in time.
 */
export type RunPlugin = (call: PluginCall) => Promise<PluginResult | undefined>

/** `users[].user.exec`, checked. */
export interface ExecPlugin extends PluginCall {
  readonly apiVersion: string
  /** Added to the error when the program is missing; '' for none. */
  readonly installHint: string
}

/** The credentials that a plugin printed. */
export interface ExecCredentials {
  /** '' for none. */
  readonly token: string
  /** PEM, like `key`; both or neither are ''. */
  readonly certificate: string
  readonly key: string
  /** Milliseconds since the epoch; undefined: valid until the server refuses them. */
  readonly expiresAtMs: number | undefined
}

/** The cluster as it is given to a plugin with `provideClusterInfo`. */
export interface ExecCluster {
  readonly server: string
  readonly tlsServerName: string
  readonly insecureSkipTlsVerify: boolean
  /** Base64; '' for none. */
  readonly caData: string
  readonly proxyUrl: string
  readonly disableCompression: boolean
  /** `extensions[]` of the cluster named client.authentication.k8s.io/exec. */
  readonly config: unknown
}

const GROUP = 'client.authentication.k8s.io'
const API_VERSIONS = [`${GROUP}/v1`, `${GROUP}/v1beta1`]
const MODES = ['Never', 'IfAvailable', 'Always']
/** Name of the cluster extension that plugins receive. */
export const EXEC_EXTENSION = `${GROUP}/exec`

/**
 * The plugin of a user. Throws an Error that names the wrong field.
 * @param folder the kubeconfig's, to which the command may be relative
 * @param cluster passed to the plugin; undefined without `provideClusterInfo`
 */
export function parseExecPlugin(json: JsonObject, folder: string, cluster: ExecCluster | undefined): ExecPlugin {
  const { apiVersion, command, args, env, interactiveMode, installHint } = json
  if (typeof command !== 'string' || command === '')
    throw new Error('exec: command must be specified to use exec authentication plugin')
  if (typeof apiVersion !== 'string' || !API_VERSIONS.includes(apiVersion))
    throw new Error(`exec plugin: invalid apiVersion ${describe(apiVersion)}, must be ${API_VERSIONS.join(' or ')}`)
  const mode = interactiveMode ?? 'IfAvailable'
  if (typeof mode !== 'string' || !MODES.includes(mode))
    throw new Error(`exec: invalid interactiveMode: ${describe(mode)}`)
  if (mode === 'Always')
    throw new Error('exec plugin cannot support interactive mode: standard input is not a terminal')
  const spec = { ...(cluster === undefined ? {} : { cluster: clusterJson(cluster) }), interactive: false }
  return {
    apiVersion,
    command: command.includes('/') && !isAbsolute(command) ? join(folder, command) : command,
    args: textsOf(args),
    env: { ...environmentOf(env), KUBERNETES_EXEC_INFO: JSON.stringify({ kind: 'ExecCredential', apiVersion, spec }) },
    installHint: typeof installHint === 'string' ? installHint : '',
  }
}

function textsOf(args: unknown): readonly string[] {
  if (args === undefined || args === null) return []
  if (!Array.isArray(args)) throw new Error(`exec: args must be a list, not ${describe(args)}`)
  return args.map((arg: unknown) => {
    if (typeof arg === 'string') return arg
    throw new Error(`exec: args must be texts, not ${describe(arg)}`)
  })
}

function environmentOf(env: unknown): Readonly<Record<string, string>> {
  if (env === undefined || env === null) return {}
  if (!Array.isArray(env)) throw new Error(`exec: env must be a list, not ${describe(env)}`)
  return Object.fromEntries(
    env.map((entry: unknown) => {
      const { name, value = '' } = isObject(entry) ? entry : {}
      if (typeof name !== 'string' || name === '')
        throw new Error('exec: env variable name must be specified to use exec authentication plugin')
      if (typeof value !== 'string') throw new Error(`exec: env variable ${name} must be text`)
      return [name, value]
    }),
  )
}

/** The fields in client-go's order, without empty ones. */
function clusterJson(cluster: ExecCluster): JsonObject {
  const { server, tlsServerName, insecureSkipTlsVerify, caData, proxyUrl, disableCompression, config } = cluster
  return {
    server,
    ...(tlsServerName === '' ? {} : { 'tls-server-name': tlsServerName }),
    ...(insecureSkipTlsVerify ? { 'insecure-skip-tls-verify': true } : {}),
    ...(caData === '' ? {} : { 'certificate-authority-data': caData }),
    ...(proxyUrl === '' ? {} : { 'proxy-url': proxyUrl }),
    ...(disableCompression ? { 'disable-compression': true } : {}),
    config: config ?? null,
  }
}

/** The credentials in a plugin's output. Errors never quote the output, which may hold secrets. */
function parseExecCredential(plugin: ExecPlugin, output: string): ExecCredentials {
  let json: unknown
  try {
    json = JSON.parse(output)
  } catch {
    throw new Error(`exec: decoding stdout: the output of ${plugin.command} is not valid JSON`)
  }
  const { apiVersion, kind, status } = isObject(json) ? json : {}
  if (kind !== 'ExecCredential') throw new Error('exec: decoding stdout: it is not an ExecCredential')
  if (apiVersion !== plugin.apiVersion)
    throw new Error(
      `exec plugin is configured to use API version ${plugin.apiVersion}, plugin returned version ${describe(apiVersion)}`,
    )
  if (!isObject(status)) throw new Error("exec plugin didn't return a status field")
  const token = textOf(status, 'token')
  const certificate = textOf(status, 'clientCertificateData')
  const key = textOf(status, 'clientKeyData')
  if (token === '' && certificate === '' && key === '')
    throw new Error("exec plugin didn't return a token or cert/key pair")
  if ((certificate === '') !== (key === '')) throw new Error('exec plugin returned only certificate or key, not both')
  const expiration = textOf(status, 'expirationTimestamp')
  const expiresAtMs = expiration === '' ? undefined : Date.parse(expiration)
  if (Number.isNaN(expiresAtMs)) throw new Error('exec: decoding stdout: expirationTimestamp is not a time')
  return { token, certificate, key, expiresAtMs }
}

function textOf(status: JsonObject, name: string): string {
  const value = status[name] ?? ''
  if (typeof value !== 'string') throw new Error(`exec: decoding stdout: ${name} is not text`)
  return value
}

interface Run {
  readonly key: string
  readonly result: Promise<ExecCredentials>
}

/**
 * Credentials of a plugin: kept until they expire or the server refuses them. One process runs at a
 * time for all callers, because each watch retries by itself, and processes of a plugin that hangs
 * would accumulate.
 */
export class ExecLogin {
  readonly #runPlugin: RunPlugin
  readonly #clock: () => number
  #cached: { readonly key: string; readonly credentials: ExecCredentials } | undefined
  #run: Run | undefined

  /** `clock`: milliseconds since the epoch. */
  constructor(runPlugin: RunPlugin, clock: () => number = Date.now) {
    this.#runPlugin = runPlugin
    this.#clock = clock
  }

  /** Cached credentials, or those of a new run. Rejects with an Error that says what the plugin did wrong. */
  async credentials(plugin: ExecPlugin): Promise<ExecCredentials> {
    const key = JSON.stringify(plugin)
    for (;;) {
      if (this.#cached?.key === key && this.#isFresh(this.#cached.credentials)) return this.#cached.credentials
      if (this.#run === undefined) return this.#begin(key, plugin)
      if (this.#run.key === key) return this.#run.result
      // The kubeconfig changed while its former plugin runs: wait for that one to end.
      await this.#run.result.catch(() => undefined)
    }
  }

  /** The server refused the credentials. A run in progress continues, because the server has not seen its result. */
  invalidate(): void {
    if (this.#run === undefined) this.#cached = undefined
  }

  #isFresh({ expiresAtMs }: ExecCredentials): boolean {
    return expiresAtMs === undefined || this.#clock() <= expiresAtMs
  }

  #begin(key: string, plugin: ExecPlugin): Promise<ExecCredentials> {
    this.#cached = undefined
    const result = this.#fetch(plugin).then(
      (credentials) => {
        this.#run = undefined
        this.#cached = { key, credentials }
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
