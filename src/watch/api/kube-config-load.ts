/**
 * Reads kubeconfigs, the in-cluster configuration and `--master` with client-node, and corrects the
 * result where it differs from client-go. No error message may hold a secret.
 * @impure
 */
import { readFile } from 'node:fs/promises'
import { isIPv6 } from 'node:net'
import { dirname, resolve } from 'node:path'
import type { Cluster, KubeConfig } from '@kubernetes/client-node'
import { type Document, parseDocument, visit } from 'yaml'
import { CodedError, errorText } from '../../values/errors.ts'
import { isOutOfStack, nestingOf } from '../../values/nesting.ts'
import { EXEC_EXTENSION, type ExecCluster, type ExecPlugin, parseExecPlugin } from './exec-plugin.ts'
import {
  type Wrong,
  checkImpersonation,
  checkProxy,
  clusterIn,
  withMaster,
  withoutCluster,
  withoutContext,
} from './kube-config-entries.ts'
import { describe, isObject, type JsonObject } from '../objects/findings.ts'
import { ownMember } from '../../values/own-member.ts'

export interface Loaded {
  /** Text of the kubeconfig file. */
  readonly text: string
  readonly config: KubeConfig
  /** The exec plugin of the current user. */
  readonly plugin: ExecPlugin | undefined
  /** `clusters[].cluster.disable-compression`, which client-node does not know. */
  readonly disableCompression: boolean
}

export interface LoadOptions {
  /** Path of the kubeconfig; paths in it are relative to its folder. */
  readonly path: string
  /** URL of the API server instead of the one in the kubeconfig; '' for none. */
  readonly master: string
  readonly wrong: Wrong
}

/** client-go's message for a kubeconfig without a cluster. */
const NO_CONFIGURATION =
  'invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable'
/**
 * client-go's messages for auth providers that it removed in 1.26. client-node would still run
 * their commands, in a shell.
 */
const REMOVED_PROVIDERS: Readonly<Record<string, string>> = {
  gcp: 'The gcp auth plugin has been removed. Please use the "gke-gcloud-auth-plugin" kubectl/client-go credential plugin instead.',
  azure:
    'The azure auth plugin has been removed. Please use the https://github.com/Azure/kubelogin kubectl/client-go credential plugin instead.',
  exec: 'no Auth Provider found for name "exec"',
}

/**
 * The configuration in a kubeconfig's text. Rejects with the error that `wrong` makes, or with
 * client-go's message when the text is empty or is not YAML.
 */
export async function loadKubeconfig(text: string, options: LoadOptions): Promise<Loaded> {
  const { path, master, wrong } = options
  const json = parseKubeconfig(text, path, wrong)
  if (!Array.isArray(json['clusters']) && !master) throw new CodedError('kubeconfig', NO_CONFIGURATION)
  const config = await newKubeConfig()
  const folder = dirname(resolve(path))
  try {
    // Entries that the current context does not use may be incomplete, as for client-go.
    config.loadFromString(JSON.stringify(master === '' ? json : withMaster(json, master)), { onInvalidEntry: 'filter' })
    // It takes a name of a file that is no text to a function for texts.
    config.makePathsAbsolute(folder)
  } catch (error) {
    throw wrong(reasonOf(error), error)
  }
  applyTokenFiles(config, json, folder)
  const context = config.getCurrentContext()
  if (config.getContextObject(context) === null) throw wrong(withoutContext(json, context))
  const cluster = config.getCurrentCluster()
  if (cluster === null) throw wrong(withoutCluster(json, context, config.getContextObject(context)?.cluster ?? ''))
  const user = config.getContextObject(context)?.user
  if (!user) useAnonymous(config, context)
  else if (config.getUser(user) === null) throw wrong(`contexts["${context}"].context.user: there is no user "${user}"`)
  if (cluster.skipTLSVerify && (cluster.caData || cluster.caFile))
    throw wrong('specifying a root certificates file with the insecure flag is not allowed')
  withServer(config, master === '' ? cluster.server : master, wrong)
  checkProxy(config, cluster, wrong)
  checkImpersonation(json, user, wrong)
  const disableCompression = clusterIn(json, cluster.name)['disable-compression'] ?? false
  if (typeof disableCompression !== 'boolean')
    throw wrong(
      `clusters["${cluster.name}"].cluster.disable-compression: must be a boolean, not ${describe(disableCompression)}`,
    )
  return { text, config, plugin: await takePlugin(config, json, folder, wrong), disableCompression }
}

/** Removes the exec plugin of the current user from the configuration, because client-node would run it. */
async function takePlugin(
  config: KubeConfig,
  json: JsonObject,
  folder: string,
  wrong: Wrong,
): Promise<ExecPlugin | undefined> {
  const user = config.getCurrentUser()
  if (user === null) return undefined
  const removed = ownMember(REMOVED_PROVIDERS, providerOf(user.authProvider))
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

/**
 * Name of `users[].user.auth-provider`; `exec` for a command in its configuration, which
 * client-node would run as well.
 */
function providerOf(authProvider: unknown): string {
  const { name, config } = isObject(authProvider) ? authProvider : {}
  if (isObject(config) && config['exec']) return 'exec'
  return typeof name === 'string' ? name : ''
}

/**
 * The configuration of `--master`, or of the pod when that is ''. @param root folder that replaces
 * `/` in a pod's paths
 */
export async function loadWithoutFile(master: string, root: string, wrong: Wrong): Promise<Loaded> {
  const config = await newKubeConfig()
  const others = { text: '', plugin: undefined, disableCompression: false }
  if (master !== '') {
    config.loadFromClusterAndUser({ name: 'master', server: master, skipTLSVerify: false }, { name: 'none' })
    return { ...others, config: withServer(config, master, wrong) }
  }
  const { KUBERNETES_SERVICE_HOST: host = '', KUBERNETES_SERVICE_PORT: port = '' } = process.env
  if (host === '' || port === '')
    throw new CodedError(
      'no-api-server',
      'unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined',
    )
  if (!isHost(host)) throw wrong(`KUBERNETES_SERVICE_HOST: "${host}" is not a host, without a scheme and a port`)
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) throw wrong(`KUBERNETES_SERVICE_PORT: "${port}" is not a port`)
  config.loadFromCluster(root)
  // client-node chooses http for some ports and then refuses to connect.
  config.clusters = config.clusters.map((cluster) => ({
    ...cluster,
    server: cluster.server.replace(/^http:/, 'https:'),
  }))
  return { ...others, config }
}

const isHost = (text: string): boolean => /^[\w.-]+$/.test(text) || isIPv6(text.replace(/^\[(.*)\]$/, '$1'))

function parseKubeconfig(text: string, path: string, wrong: Wrong): JsonObject {
  let json: unknown
  try {
    // A pretty error would quote the line, and a warning a key that is an object; both may hold a token.
    const document = parseDocument(text, { prettyErrors: false, logLevel: 'silent' })
    for (const error of document.errors) throw error
    if (hasManyAliases(document)) throw wrong(`has more than ${MAX_ALIASES} aliases`)
    json = document.toJS()
  } catch (error) {
    if (error instanceof CodedError) throw error
    if (isOutOfStack(error) || isOutOfStack(errorText(error)))
      throw wrong(`line ${nestingOf(text).line} nests too deeply to be read: look for a missing comma or bracket`)
    const at = isObject(error) && Array.isArray(error['pos']) ? lineOf(text, Number(error['pos'][0])) : 0
    throw new CodedError('kubeconfig', `error loading config file "${path}": yaml: line ${at}: ${reasonOf(error)}`)
  }
  if (json === null || json === undefined) return {}
  if (!isObject(json)) throw wrong('is not a kubeconfig: it must hold one object')
  return json
}

/** Each alias of a kubeconfig is looked for among all of them. */
const MAX_ALIASES = 1000

function hasManyAliases(document: Document): boolean {
  let count = 0
  visit(document, { Alias: () => (++count > MAX_ALIASES ? visit.BREAK : undefined) })
  return count > MAX_ALIASES
}

/** Loads only the configuration module of client-node, and only here: unbundled, it takes 70 MiB. */
async function newKubeConfig(): Promise<KubeConfig> {
  const module = await import('@kubernetes/client-node/dist/config.js')
  return new module.KubeConfig()
}

/**
 * Applies `users[].user.tokenFile` (clientcmd api AuthInfo.TokenFile), which overrides a token;
 * client-node expects another name.
 */
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

/** Adds a user without credentials; without any user client-node also ignores the certificate authority. */
function useAnonymous(config: KubeConfig, context: string): void {
  const name = 'nobody'
  if (config.getUser(name) === null) config.users = [...config.users, { name }]
  config.contexts = config.contexts.map((entry) => (entry.name === context ? { ...entry, user: name } : entry))
}

/** Sets the server of the current cluster. client-node only takes plain http together with skipTLSVerify. */
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

/** A regular expression would look at a run of slashes from each of them. */
function withoutLastSlashes(text: string): string {
  let end = text.length
  while (text[end - 1] === '/') end--
  return text.slice(0, end)
}

/** The current cluster, for a plugin with `provideClusterInfo`. */
async function execClusterOf(json: JsonObject, cluster: Cluster): Promise<ExecCluster> {
  const { name, server, tlsServerName, skipTLSVerify, caData, caFile, proxyUrl } = cluster
  const own = clusterIn(json, name)
  const extensions = Array.isArray(own['extensions']) ? own['extensions'] : []
  const extension: unknown = extensions.find((candidate) => isObject(candidate) && candidate['name'] === EXEC_EXTENSION)
  return {
    server: withoutLastSlashes(server),
    tlsServerName: tlsServerName ?? '',
    insecureSkipTlsVerify: skipTLSVerify,
    caData: caFile ? (await readFile(caFile)).toString('base64') : (caData ?? ''),
    proxyUrl: proxyUrl ?? '',
    disableCompression: own['disable-compression'] === true,
    config: isObject(extension) ? extension['extension'] : undefined,
  }
}

function lineOf(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length
}

/** Longest reason in a message; an exec plugin's whole standard error would be too much. */
const MAX_REASON = 400

/** Why something failed, short and without secrets from files or programs. */
export function reasonOf(error: unknown): string {
  // The message of a SyntaxError quotes the input, which may hold an exec plugin's token.
  if (error instanceof SyntaxError) return 'is not valid JSON'
  return errorText(error).trim().slice(0, MAX_REASON)
}
