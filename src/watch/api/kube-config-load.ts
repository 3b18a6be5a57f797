/**
 * Kubeconfigs, in-cluster configuration and `--master` to what client-node makes of them, put right where it differs from
 * client-go. No secret may get into a message.
 */
import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Cluster, KubeConfig } from '@kubernetes/client-node'
import { parse } from 'yaml'
import { CodedError, errorText } from '../../values/errors.ts'
import { EXEC_EXTENSION, type ExecCluster, type ExecPlugin, parseExecPlugin } from './exec-plugin.ts'
import { describe, isObject, type JsonObject } from '../objects/findings.ts'

export interface Loaded {
  /** Text of the kubeconfig file it was made from. */
  readonly text: string
  readonly config: KubeConfig
  /** The current user has to ask this plugin. */
  readonly plugin: ExecPlugin | undefined
}

/** Makes an error of what is wrong with the configuration. */
export type Wrong = (message: string, cause?: unknown) => CodedError

export interface LoadOptions {
  /** Of the kubeconfig; relative paths in it count from its folder. */
  readonly path: string
  /** URL of the API server instead of the one in the kubeconfig; '' for none. */
  readonly master: string
  readonly wrong: Wrong
}

/** client-go's words for a kubeconfig without a cluster. */
const NO_CONFIGURATION =
  'invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable'
/** client-go's words for plugins that are no more (1.26). client-node would run commands of theirs in a shell, and wait. */
const REMOVED_PROVIDERS: Readonly<Record<string, string>> = {
  gcp: 'The gcp auth plugin has been removed. Please use the "gke-gcloud-auth-plugin" kubectl/client-go credential plugin instead.',
  azure:
    'The azure auth plugin has been removed. Please use the https://github.com/Azure/kubelogin kubectl/client-go credential plugin instead.',
  exec: 'no Auth Provider found for name "exec"',
}

/**
 * The configuration that a kubeconfig's text amounts to. Rejects with what `wrong` makes, or with client-go's words for one
 * that holds nothing or cannot be read.
 */
export async function loadKubeconfig(text: string, options: LoadOptions): Promise<Loaded> {
  const { path, master, wrong } = options
  const json = parseKubeconfig(text, path, wrong)
  if (!Array.isArray(json['clusters']) && !master) throw new CodedError('kubeconfig', NO_CONFIGURATION)
  const config = await newKubeConfig()
  try {
    config.loadFromString(JSON.stringify(json))
  } catch (error) {
    throw wrong(reasonOf(error), error)
  }
  const folder = dirname(resolve(path))
  config.makePathsAbsolute(folder)
  applyTokenFiles(config, json, folder)
  const context = config.getCurrentContext()
  if (config.getContextObject(context) === null) throw wrong(`current-context: there is no context "${context ?? ''}"`)
  const cluster = config.getCurrentCluster()
  if (cluster === null) throw wrong(`contexts["${context}"].context.cluster: there is no such cluster`)
  const user = config.getContextObject(context)?.user
  if (!user) useNobody(config, context)
  else if (config.getUser(user) === null) throw wrong(`contexts["${context}"].context.user: there is no user "${user}"`)
  if (cluster.skipTLSVerify && (cluster.caData || cluster.caFile))
    throw wrong('specifying a root certificates file with the insecure flag is not allowed')
  withServer(config, master === '' ? cluster.server : master, wrong)
  return { text, config, plugin: await takePlugin(config, json, folder, wrong) }
}

/** Takes the exec plugin of the current user out of the configuration, for client-node would run it. */
async function takePlugin(
  config: KubeConfig,
  json: JsonObject,
  folder: string,
  wrong: Wrong,
): Promise<ExecPlugin | undefined> {
  const user = config.getCurrentUser()
  if (user === null) return undefined
  const removed = REMOVED_PROVIDERS[providerOf(user.authProvider)]
  if (removed !== undefined) throw wrong(`user "${user.name}": ${removed}`)
  if (!user.exec) return undefined
  const { exec, ...others } = user
  config.users = config.users.map((candidate) => (candidate === user ? others : candidate))
  try {
    if (!isObject(exec)) throw new Error(`exec: must be an object, not ${describe(exec)}`)
    const cluster = exec['provideClusterInfo'] === true ? config.getCurrentCluster() : null
    return parseExecPlugin(exec, folder, cluster === null ? undefined : await execClusterOf(json, cluster))
  } catch (error) {
    throw wrong(`credentials of user "${user.name}": ${reasonOf(error)}`, error)
  }
}

/** Name of `users[].user.auth-provider`; client-node also takes a plugin in its configuration for one. */
function providerOf(authProvider: unknown): string {
  const { name, config } = isObject(authProvider) ? authProvider : {}
  if (isObject(config) && config['exec']) return 'exec'
  return typeof name === 'string' ? name : ''
}

/** The configuration of `--master`, or of a pod where that is ''. @param root where a pod finds its service account instead of `/` */
export async function loadWithoutFile(master: string, root: string, wrong: Wrong): Promise<Loaded> {
  const config = await newKubeConfig()
  if (master !== '') {
    config.loadFromClusterAndUser({ name: 'master', server: master, skipTLSVerify: false }, { name: 'none' })
    return { text: '', config: withServer(config, master, wrong), plugin: undefined }
  }
  if (!process.env['KUBERNETES_SERVICE_HOST'] || !process.env['KUBERNETES_SERVICE_PORT'])
    throw new CodedError(
      'no-api-server',
      'unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined',
    )
  config.loadFromCluster(root)
  // client-node takes http for some ports, and then refuses it.
  config.clusters = config.clusters.map((cluster) => ({
    ...cluster,
    server: cluster.server.replace(/^http:/, 'https:'),
  }))
  return { text: '', config, plugin: undefined }
}

function parseKubeconfig(text: string, path: string, wrong: Wrong): JsonObject {
  let json: unknown
  try {
    // Pretty errors quote the line, and that may hold a token.
    json = parse(text, { prettyErrors: false })
  } catch (error) {
    const at = isObject(error) && Array.isArray(error['pos']) ? lineOf(text, Number(error['pos'][0])) : 0
    throw new CodedError('kubeconfig', `error loading config file "${path}": yaml: line ${at}: ${reasonOf(error)}`)
  }
  if (json === null || json === undefined) return {}
  if (!isObject(json)) throw wrong('is not a kubeconfig: it must hold one object')
  return json
}

/** Only its configuration module, and only now: it costs 70 MiB to load where it is not bundled. */
async function newKubeConfig(): Promise<KubeConfig> {
  const module = await import('@kubernetes/client-node/dist/config.js')
  return new module.KubeConfig()
}

/** `users[].user.tokenFile` (clientcmd api AuthInfo.TokenFile) wins over a token; client-node knows it by another name only. */
function applyTokenFiles(config: KubeConfig, json: JsonObject, folder: string): void {
  const users = Array.isArray(json['users']) ? json['users'] : []
  for (const entry of users) {
    if (!isObject(entry) || !isObject(entry['user'])) continue
    const tokenFile = entry['user']['tokenFile']
    const user = config.users.find((candidate) => candidate.name === entry['name'])
    if (typeof tokenFile !== 'string' || tokenFile === '' || user === undefined) continue
    const index = config.users.indexOf(user)
    const { token: _, ...others } = user
    config.users[index] = {
      ...others,
      authProvider: { name: 'tokenFile', config: { tokenFile: resolve(folder, tokenFile) } },
    }
  }
}

/** Without a user client-node leaves out even the certificate authority. */
function useNobody(config: KubeConfig, context: string): void {
  const name = 'nobody'
  if (config.getUser(name) === null) config.users = [...config.users, { name }]
  config.contexts = config.contexts.map((entry) => (entry.name === context ? { ...entry, user: name } : entry))
}

/** Sets the server of the current cluster. Plain http has no TLS to verify; client-node wants that said. */
function withServer(config: KubeConfig, server: string, wrong: Wrong): KubeConfig {
  const url = URL.parse(server.includes('://') ? server : `https://${server}`)
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    throw wrong(`server: "${server}" is not an http or https URL`)
  const current = config.getCurrentCluster()
  config.clusters = config.clusters.map((cluster) =>
    cluster.name === current?.name
      ? { ...cluster, server: url.href, skipTLSVerify: cluster.skipTLSVerify || url.protocol === 'http:' }
      : cluster,
  )
  return config
}

/** The current cluster for a plugin that asks for it. */
async function execClusterOf(json: JsonObject, cluster: Cluster): Promise<ExecCluster> {
  const { name, server, tlsServerName, skipTLSVerify, caData, caFile, proxyUrl } = cluster
  const all = Array.isArray(json['clusters']) ? json['clusters'] : []
  const entry: unknown = all.find((candidate) => isObject(candidate) && candidate['name'] === name)
  const own = isObject(entry) && isObject(entry['cluster']) ? entry['cluster'] : {}
  const extensions = Array.isArray(own['extensions']) ? own['extensions'] : []
  const extension: unknown = extensions.find((candidate) => isObject(candidate) && candidate['name'] === EXEC_EXTENSION)
  return {
    server: server.replace(/\/+$/, ''),
    tlsServerName: tlsServerName ?? '',
    insecureSkipTlsVerify: skipTLSVerify,
    caData: caFile ? (await readFile(caFile)).toString('base64') : (caData ?? ''),
    proxyUrl: proxyUrl ?? '',
    config: isObject(extension) ? extension['extension'] : undefined,
  }
}

function lineOf(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length
}

/** An exec plugin's whole standard error may come in here. */
const MAX_REASON = 400

/** Why something failed, short, and without what a file or a program may hold of secrets. */
export function reasonOf(error: unknown): string {
  // The message of a SyntaxError quotes what was read, which may be an exec plugin's token.
  if (error instanceof SyntaxError) return 'is not valid JSON'
  return errorText(error).trim().slice(0, MAX_REASON)
}
