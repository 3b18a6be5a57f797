/**
 * Where the API server is and how to prove who we are, asked for each request: files are read again when they changed.
 * client-node reads `token-file` where kubeconfigs say `tokenFile` (kubeadm's do), caches tokens for a minute, refuses plain
 * http, and starts exec plugins without a limit; all four are put right here and in `kube-config-load`.
 */
import { readFile } from 'node:fs/promises'
import type { RequestOptions } from 'node:https'
import { CodedError } from '../../values/errors.ts'
import { ExecLogin } from './exec-login.ts'
import type { ExecCredentials, ExecPlugin, RunPlugin } from './exec-plugin.ts'
import { type Loaded, loadKubeconfig, loadWithoutFile, reasonOf, type Wrong } from './kube-config-load.ts'
import { requireFile } from './required-file.ts'
import { checkTls, type TlsMaterial, tlsFingerprint } from './tls-material.ts'

export interface KubeConfigOptions {
  /** clientConnection.kubeconfig: a path; '' or absent for none. */
  readonly kubeconfig?: string
  /** `--master`: URL of the API server, instead of the one in the kubeconfig. */
  readonly master?: string
  /** Where a pod finds its service account instead of `/` (tests). */
  readonly serviceAccountRoot?: string
  /** Runs exec credential plugins; without it a kubeconfig that names one is refused. */
  readonly runPlugin?: RunPlugin
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

/** rest.InClusterConfig. */
const TOKEN_FILE = '/var/run/secrets/kubernetes.io/serviceaccount/token'

/** Gives each request its headers and TLS material, as the files are now. */
export class KubeAccess {
  readonly #options: KubeConfigOptions
  readonly #execLogin: ExecLogin | undefined
  #loaded: Loaded | undefined
  #checkedTls = ''

  constructor(options: KubeConfigOptions) {
    this.#options = options
    if (options.runPlugin !== undefined) this.#execLogin = new ExecLogin(options.runPlugin)
  }

  /** What a request needs now: tokens and certificates are read again when their files changed. Rejects with a CodedError. */
  async access(): Promise<Access> {
    const { config, plugin } = await this.#current()
    const cluster = config.getCurrentCluster()
    if (cluster === null) throw this.#error(`context "${config.getCurrentContext()}" names no cluster that is there`)
    const options: RequestOptions = {}
    let given: ExecCredentials | undefined
    try {
      await config.applyToHTTPSOptions(options)
      if (plugin !== undefined) given = await this.#ask(plugin)
    } catch (error) {
      throw this.#error(`credentials of user "${config.getCurrentUser()?.name ?? ''}": ${reasonOf(error)}`, error)
    }
    const headers = headersOf(options)
    // A token of the kubeconfig itself wins, as in client-go.
    if (given !== undefined && given.token !== '') headers['authorization'] ??= `Bearer ${given.token}`
    const tls = tlsOf(options, given)
    this.#checkTls(tls)
    return {
      server: cluster.server.replace(/\/+$/, ''),
      headers,
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
    return (await this.#current()).config.getCurrentCluster()?.server ?? ''
  }

  /** The server did not accept our credentials: whatever is cached of them is read or fetched again for the next request. */
  invalidate(): void {
    this.#loaded = undefined
    this.#execLogin?.invalidate()
  }

  async #ask(plugin: ExecPlugin): Promise<ExecCredentials> {
    if (this.#execLogin === undefined) throw new Error('exec: credential plugins cannot be run here')
    return this.#execLogin.credentials(plugin)
  }

  async #current(): Promise<Loaded> {
    const { kubeconfig = '', master = '', serviceAccountRoot = '' } = this.#options
    const wrong: Wrong = (message, cause) => this.#error(message, cause)
    if (kubeconfig === '') {
      this.#loaded ??= await loadWithoutFile(master, serviceAccountRoot, wrong)
      return this.#loaded
    }
    const text = await this.#readKubeconfig(kubeconfig)
    if (text === undefined || text === this.#loaded?.text) {
      if (this.#loaded !== undefined) return this.#loaded
    }
    this.#loaded = await loadKubeconfig(text ?? '', { path: kubeconfig, master, wrong })
    return this.#loaded
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

  #checkTls(tls: TlsMaterial): void {
    const fingerprint = tlsFingerprint(tls)
    if (fingerprint === this.#checkedTls) return
    checkTls(tls, (field, reason) => {
      throw this.#error(`${field}: ${reasonOf(reason)}`)
    })
    this.#checkedTls = fingerprint
  }

  #error(message: string, cause?: unknown): CodedError {
    const { kubeconfig, master } = this.#options
    const where = kubeconfig || (master ? '--master' : 'in-cluster configuration')
    return new CodedError('kubeconfig', `${where}: ${message}`, cause === undefined ? undefined : { cause })
  }
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

function tlsOf(options: RequestOptions, given: ExecCredentials | undefined): TlsMaterial {
  const { ca, cert, key, servername, rejectUnauthorized } = options
  const own = { ...(isPem(cert) ? { cert } : {}), ...(isPem(key) ? { key } : {}) }
  return {
    ...(isPem(ca) ? { ca } : {}),
    ...(given === undefined || given.certificate === '' ? own : { cert: given.certificate, key: given.key }),
    ...(servername === undefined ? {} : { servername }),
    ...(rejectUnauthorized === undefined ? {} : { rejectUnauthorized }),
  }
}

function isPem(value: unknown): value is string | Buffer {
  return typeof value === 'string' || Buffer.isBuffer(value)
}
