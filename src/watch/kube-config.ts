/**
 * Where the API server is and how to prove who we are: kubeconfig, in-cluster configuration or `--master`.
 * What could break: client-node reads `token-file` where kubeconfigs say `tokenFile` (kubeadm's do), caches tokens for a
 * minute, and refuses plain http; all three are put right here. No secret may get into a message.
 */
import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { RequestOptions } from 'node:https'
import { dirname, resolve } from 'node:path'
import { createSecureContext } from 'node:tls'
import type { KubeConfig } from '@kubernetes/client-node'
import { parse } from 'yaml'
import { CodedError } from '../values/errors.ts'
import { isObject, type JsonObject } from './findings.ts'
import { requireFile } from './required-file.ts'

export interface KubeConfigOptions {
  /** clientConnection.kubeconfig: a path; '' or absent for none. */
  readonly kubeconfig?: string
  /** `--master`: URL of the API server, instead of the one in the kubeconfig. */
  readonly master?: string
  /** Where a pod finds its service account instead of `/` (tests). */
  readonly serviceAccountRoot?: string
}

/** PEM texts or bytes for TLS; what is absent is as Node has it by default. */
export interface TlsMaterial {
  readonly ca?: string | Buffer
  readonly cert?: string | Buffer
  readonly key?: string | Buffer
  readonly servername?: string
  readonly rejectUnauthorized?: boolean
}

/** What one request needs. */
export interface Access {
  /** URL of the API server, without a slash at the end. */
  readonly server: string
  readonly headers: Readonly<Record<string, string>>
  readonly tls: TlsMaterial
  /** proxy-url of the cluster: http or https. */
  readonly proxyUrl?: string
}

/** client-go's words for a kubeconfig without a cluster. */
const NO_CONFIGURATION =
  'invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable'
/** rest.InClusterConfig. */
const TOKEN_FILE = '/var/run/secrets/kubernetes.io/serviceaccount/token'

interface Loaded {
  /** Text of the kubeconfig file it was made from. */
  readonly text: string
  readonly config: KubeConfig
}

/** Gives each request its headers and TLS material, as the files are now. */
export class KubeAccess {
  readonly #options: KubeConfigOptions
  #loaded: Loaded | undefined
  #checkedTls = ''

  constructor(options: KubeConfigOptions) {
    this.#options = options
  }

  /** What a request needs now: tokens and certificates are read again when their files changed. Rejects with a CodedError. */
  async access(): Promise<Access> {
    const config = await this.#current()
    const cluster = config.getCurrentCluster()
    if (cluster === null) throw this.#error(`context "${config.getCurrentContext()}" names no cluster that is there`)
    const options: RequestOptions = {}
    try {
      await config.applyToHTTPSOptions(options)
    } catch (error) {
      throw this.#error(`credentials of user "${config.getCurrentUser()?.name ?? ''}": ${reasonOf(error)}`, error)
    }
    const tls = tlsOf(options)
    this.#checkTls(tls)
    return {
      server: cluster.server.replace(/\/+$/, ''),
      headers: headersOf(options),
      tls,
      ...(cluster.proxyUrl === undefined ? {} : { proxyUrl: cluster.proxyUrl }),
    }
  }

  /**
   * Finds out at the start whether there is anything to connect with. Rejects with what kube-proxy says then, since no
   * waiting helps; what is wrong with credentials alone may still be mended and is left to `access`.
   */
  async check(): Promise<void> {
    const { kubeconfig = '', serviceAccountRoot = '' } = this.#options
    if (kubeconfig !== '') await requireFile(kubeconfig, 'stat')
    await this.#current()
    if (kubeconfig === '' && !this.#options.master)
      await requireFile(`${serviceAccountRoot}${TOKEN_FILE}`, 'open', TOKEN_FILE)
  }

  /** URL of the API server, without a look at credentials. Rejects with a CodedError. */
  async server(): Promise<string> {
    return (await this.#current()).getCurrentCluster()?.server ?? ''
  }

  /** The server did not accept our credentials: whatever is cached of them is read or fetched anew for the next request. */
  invalidate(): void {
    this.#loaded = undefined
  }

  async #current(): Promise<KubeConfig> {
    const { kubeconfig, master, serviceAccountRoot } = this.#options
    if (kubeconfig === undefined || kubeconfig === '') {
      this.#loaded ??= { text: '', config: await this.#withoutFile(master ?? '', serviceAccountRoot ?? '') }
      return this.#loaded.config
    }
    const text = await this.#readKubeconfig(kubeconfig)
    if (text === undefined || text === this.#loaded?.text) {
      if (this.#loaded !== undefined) return this.#loaded.config
    }
    const config = await this.#fromText(text ?? '', kubeconfig, master ?? '')
    this.#loaded = { text: text ?? '', config }
    return config
  }

  /** Undefined when it cannot be read now but could before: it may be on its way to be replaced. */
  async #readKubeconfig(path: string): Promise<string | undefined> {
    try {
      return await readFile(path, 'utf8')
    } catch (error) {
      if (this.#loaded !== undefined) return undefined
      throw this.#error(`cannot be read: ${reasonOf(error)}`, error)
    }
  }

  async #fromText(text: string, path: string, master: string): Promise<KubeConfig> {
    const json = this.#parse(text)
    if (!Array.isArray(json['clusters']) && !master) throw new CodedError('kubeconfig', NO_CONFIGURATION)
    const config = await newKubeConfig()
    try {
      config.loadFromString(JSON.stringify(json))
    } catch (error) {
      throw this.#error(reasonOf(error), error)
    }
    const folder = dirname(resolve(path))
    config.makePathsAbsolute(folder)
    applyTokenFiles(config, json, folder)
    const context = config.getCurrentContext()
    if (config.getContextObject(context) === null)
      throw this.#error(`current-context: there is no context "${context ?? ''}"`)
    const cluster = config.getCurrentCluster()
    if (cluster === null) throw this.#error(`contexts["${context}"].context.cluster: there is no such cluster`)
    const user = config.getContextObject(context)?.user
    if (!user) useNobody(config, context)
    else if (config.getUser(user) === null)
      throw this.#error(`contexts["${context}"].context.user: there is no user "${user}"`)
    return withServer(config, master === '' ? cluster.server : master, (message) => this.#error(message))
  }

  async #withoutFile(master: string, root: string): Promise<KubeConfig> {
    const config = await newKubeConfig()
    if (master !== '') {
      config.loadFromClusterAndUser({ name: 'master', server: master, skipTLSVerify: false }, { name: 'none' })
      return withServer(config, master, (message) => this.#error(message))
    }
    if (!process.env['KUBERNETES_SERVICE_HOST'] || !process.env['KUBERNETES_SERVICE_PORT'])
      throw new CodedError(
        'no-api-server',
        'unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined',
      )
    config.loadFromCluster(root)
    return config
  }

  #parse(text: string): JsonObject {
    let json: unknown
    try {
      // Pretty errors quote the line, and that may hold a token.
      json = parse(text, { prettyErrors: false })
    } catch (error) {
      const at = isObject(error) && Array.isArray(error['pos']) ? lineOf(text, Number(error['pos'][0])) : 0
      const where = this.#options.kubeconfig ?? ''
      throw new CodedError('kubeconfig', `error loading config file "${where}": yaml: line ${at}: ${reasonOf(error)}`)
    }
    if (json === null || json === undefined) return {}
    if (!isObject(json)) throw this.#error('is not a kubeconfig: it must hold one object')
    return json
  }

  /** Finds out at once, and by name, what OpenSSL would only say at the first handshake. */
  #checkTls(tls: TlsMaterial): void {
    const fingerprint = tlsFingerprint(tls)
    if (fingerprint === this.#checkedTls) return
    const { ca, cert, key } = tls
    const check = (field: string, material: TlsMaterial): void => {
      try {
        // An authority that is no certificate is ignored there without a word.
        if (material.ca !== undefined) return void new X509Certificate(material.ca)
        createSecureContext(material)
      } catch (error) {
        throw this.#error(`${field}: ${reasonOf(error)}`)
      }
    }
    if (ca !== undefined) check('certificate-authority', { ca })
    if (cert !== undefined) check('client-certificate', { cert })
    if (key !== undefined) check('client-key', { key })
    if (cert !== undefined && key !== undefined) check('client-certificate and client-key', { cert, key })
    this.#checkedTls = fingerprint
  }

  #error(message: string, cause?: unknown): CodedError {
    const { kubeconfig, master } = this.#options
    const where = kubeconfig || (master ? '--master' : 'in-cluster configuration')
    return new CodedError('kubeconfig', `${where}: ${message}`, cause === undefined ? undefined : { cause })
  }
}

/** Text that is equal exactly when the TLS material is. */
export function tlsFingerprint(tls: TlsMaterial): string {
  const { ca, cert, key, servername, rejectUnauthorized } = tls
  return JSON.stringify([ca?.toString(), cert?.toString(), key?.toString(), servername, rejectUnauthorized])
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
function withServer(config: KubeConfig, server: string, error: (message: string) => CodedError): KubeConfig {
  const url = URL.parse(server.includes('://') ? server : `https://${server}`)
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    throw error(`server: "${server}" is not an http or https URL`)
  const current = config.getCurrentCluster()
  config.clusters = config.clusters.map((cluster) =>
    cluster.name === current?.name
      ? { ...cluster, server: url.href, skipTLSVerify: cluster.skipTLSVerify || url.protocol === 'http:' }
      : cluster,
  )
  return config
}

function headersOf(options: RequestOptions): Record<string, string> {
  const headers: Record<string, string> = {}
  // A token file usually ends in a newline, which no header may hold.
  for (const [name, value] of Object.entries(options.headers ?? {}))
    if (value !== undefined) headers[name.toLowerCase()] = String(value).trim()
  if (typeof options.auth === 'string')
    headers['authorization'] = `Basic ${Buffer.from(options.auth).toString('base64')}`
  return headers
}

function tlsOf(options: RequestOptions): TlsMaterial {
  const { ca, cert, key, servername, rejectUnauthorized } = options
  return {
    ...(isPem(ca) ? { ca } : {}),
    ...(isPem(cert) ? { cert } : {}),
    ...(isPem(key) ? { key } : {}),
    ...(servername === undefined ? {} : { servername }),
    ...(rejectUnauthorized === undefined ? {} : { rejectUnauthorized }),
  }
}

function isPem(value: unknown): value is string | Buffer {
  return typeof value === 'string' || Buffer.isBuffer(value)
}

function lineOf(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length
}

/** An exec plugin's whole standard error may come in here. */
const MAX_REASON = 400

function reasonOf(error: unknown): string {
  // The message of a SyntaxError quotes what was read, which may be an exec plugin's token.
  if (error instanceof SyntaxError) return 'is not valid JSON'
  return (error instanceof Error ? error.message : String(error)).trim().slice(0, MAX_REASON)
}
