/**
 * An exec credential plugin as a kubeconfig names it (clientcmd api ExecConfig) and what passes between us and it: the object
 * in KUBERNETES_EXEC_INFO, and the ExecCredential that it prints (client.authentication.k8s.io v1 and v1beta1). Words of
 * errors are client-go's, because people look for them.
 */
import { isAbsolute, join } from 'node:path'
import { describe, isObject, type JsonObject } from '../objects/findings.ts'

/** A plugin to run, and in which environment. */
export interface PluginCall {
  /** Looked for in PATH when it has no slash, else a path. */
  readonly command: string
  readonly args: readonly string[]
  /** Added to our own environment. */
  readonly env: Readonly<Record<string, string>>
}

/** What a plugin said, when it ended by itself. */
export interface PluginResult {
  readonly exitCode: number
  readonly output: string
  readonly errorText: string
}

/** Runs a plugin with its standard input closed. Resolves to undefined when there is no such program; rejects when it does not end. */
export type RunPlugin = (call: PluginCall) => Promise<PluginResult | undefined>

/** `users[].user.exec`, checked. */
export interface ExecPlugin extends PluginCall {
  readonly apiVersion: string
  /** Said when the program is missing; '' for none. */
  readonly installHint: string
}

/** What a plugin gave. */
export interface ExecCredentials {
  /** '' for none. */
  readonly token: string
  /** PEM; both or neither. */
  readonly certificate: string
  readonly key: string
  /** Milliseconds since the epoch; undefined: until the server refuses them. */
  readonly expiresAtMs: number | undefined
}

/** The cluster as a plugin with `provideClusterInfo` sees it. */
export interface ExecCluster {
  readonly server: string
  readonly tlsServerName: string
  readonly insecureSkipTlsVerify: boolean
  /** Base64; '' for none. */
  readonly caData: string
  readonly proxyUrl: string
  /** `extensions[]` of the cluster named client.authentication.k8s.io/exec. */
  readonly config: unknown
}

const GROUP = 'client.authentication.k8s.io'
const API_VERSIONS = [`${GROUP}/v1`, `${GROUP}/v1beta1`]
const MODES = ['Never', 'IfAvailable', 'Always']
/** The extension of a cluster that is for plugins. */
export const EXEC_EXTENSION = `${GROUP}/exec`

/**
 * The plugin of a user. Throws an Error that says which field is wrong.
 * @param folder where a path is relative to: the kubeconfig's
 * @param cluster told to the plugin; undefined where it does not ask for it (`provideClusterInfo`)
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

/** The fields in client-go's order, without those that are empty. */
function clusterJson(cluster: ExecCluster): JsonObject {
  const { server, tlsServerName, insecureSkipTlsVerify, caData, proxyUrl, config } = cluster
  return {
    server,
    ...(tlsServerName === '' ? {} : { 'tls-server-name': tlsServerName }),
    ...(insecureSkipTlsVerify ? { 'insecure-skip-tls-verify': true } : {}),
    ...(caData === '' ? {} : { 'certificate-authority-data': caData }),
    ...(proxyUrl === '' ? {} : { 'proxy-url': proxyUrl }),
    config: config ?? null,
  }
}

/** What a plugin printed. Throws an Error without anything of the output in it, which may be a secret. */
export function parseExecCredential(plugin: ExecPlugin, output: string): ExecCredentials {
  let json: unknown
  try {
    json = JSON.parse(output)
  } catch {
    throw new Error(`exec: decoding stdout: what ${plugin.command} printed is not valid JSON`)
  }
  const { apiVersion, kind, status } = isObject(json) ? json : {}
  if (kind !== 'ExecCredential') throw new Error('exec: decoding stdout: it is no ExecCredential')
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
