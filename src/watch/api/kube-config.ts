/**
 * URL and credentials of the API server for each request, from a kubeconfig, a service account or
 * `--master`. Changed files are read again. Together with `kube-config-load` this corrects five
 * faults of client-node: it reads `token-file` instead of `tokenFile`, caches tokens for a minute,
 * reads files with synchronous calls, refuses plain http, and runs exec plugins without a time
 * limit.
 * @impure
 */
import { access, constants, readFile } from 'node:fs/promises'
import type { RequestOptions } from 'node:https'
import { CodedError } from '../../values/errors.ts'
import { type Access, type AccessProvider, checkTls, type TlsMaterial, tlsFingerprint } from './access.ts'
import { type ExecCredentials, ExecLogin, type ExecPlugin, type RunPlugin } from './exec-plugin.ts'
import { withFiles } from './kube-config-files.ts'
import type { Wrong } from './kube-config-entries.ts'
import { type Loaded, loadKubeconfig, loadWithoutFile, reasonOf } from './kube-config-load.ts'

export interface KubeConfigOptions {
  /** clientConnection.kubeconfig: a path; '' or absent for none. */
  readonly kubeconfig?: string
  /** `--master`: URL of the API server, instead of the one in the kubeconfig. */
  readonly master?: string
  /** Folder that replaces `/` in the paths of a pod's service account; tests set it. */
  readonly serviceAccountRoot?: string
  /** Runs exec credential plugins; without it a kubeconfig that names one is refused. */
  readonly runPlugin?: RunPlugin
}

/** The path in client-go's rest.InClusterConfig. */
const TOKEN_FILE = '/var/run/secrets/kubernetes.io/serviceaccount/token'

/** Gives each request its URL, headers and TLS material from the present content of the files. */
export class KubeAccess implements AccessProvider {
  readonly #options: KubeConfigOptions
  readonly #execLogin: ExecLogin | undefined
  #loaded: Loaded | undefined
  #checkedTls = ''

  constructor(options: KubeConfigOptions) {
    this.#options = options
    if (options.runPlugin !== undefined) this.#execLogin = new ExecLogin(options.runPlugin)
  }

  /**
   * What a request needs now. Tokens and certificates are read again when their files changed.
   * Rejects with a CodedError.
   */
  async access(): Promise<Access> {
    const { config, plugin, disableCompression } = await this.#current()
    const cluster = config.getCurrentCluster()
    if (cluster === null)
      throw this.#error(`context "${config.getCurrentContext()}" names a cluster that does not exist`)
    const options: RequestOptions = {}
    let credentials: ExecCredentials | undefined
    try {
      await (await withFiles(config)).applyToHTTPSOptions(options)
      if (plugin !== undefined) credentials = await this.#runPlugin(plugin)
    } catch (error) {
      throw this.#error(`credentials of user "${config.getCurrentUser()?.name ?? ''}": ${reasonOf(error)}`, error)
    }
    const headers = headersOf(options)
    // A token of the kubeconfig itself wins, as in client-go.
    if (credentials !== undefined && credentials.token !== '')
      headers['authorization'] ??= `Bearer ${credentials.token}`
    const tls = tlsOf(options, credentials)
    this.#checkTls(tls)
    return {
      server: cluster.server.replace(/\/+$/, ''),
      headers,
      tls,
      disableCompression,
      ...(cluster.proxyUrl === undefined ? {} : { proxyUrl: cluster.proxyUrl }),
    }
  }

  /**
   * Checks at the start that there is a configuration to connect with. Rejects with kube-proxy's
   * message, because waiting does not help. Wrong credentials are left to `access`, because they
   * may still be corrected.
   */
  async check(): Promise<void> {
    const { kubeconfig = '', serviceAccountRoot = '' } = this.#options
    if (kubeconfig !== '') await requireFile(kubeconfig, 'stat')
    await this.#current()
    if (kubeconfig === '' && !this.#options.master)
      await requireFile(`${serviceAccountRoot}${TOKEN_FILE}`, 'open', TOKEN_FILE)
  }

  /** URLs of the API server and of the proxy in front of it; does not read credentials. Rejects with a CodedError. */
  async urls(): Promise<{ readonly server: string; readonly proxyUrl: string | undefined }> {
    const cluster = (await this.#current()).config.getCurrentCluster()
    return { server: cluster?.server ?? '', proxyUrl: cluster?.proxyUrl }
  }

  /** The server refused the credentials: the next request reads files and runs plugins again. */
  invalidate(): void {
    this.#loaded = undefined
    this.#execLogin?.invalidate()
  }

  async #runPlugin(plugin: ExecPlugin): Promise<ExecCredentials> {
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

  /** Undefined when the file cannot be read but was read before: a program may be replacing it. */
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
  // A token file usually ends with a newline, which a header must not contain.
  for (const [name, value] of Object.entries(options.headers ?? {}))
    if (value !== undefined) headers[name.toLowerCase()] = String(value).trim()
  if (typeof options.auth === 'string')
    headers['authorization'] = `Basic ${Buffer.from(options.auth).toString('base64')}`
  return headers
}

function tlsOf(options: RequestOptions, credentials: ExecCredentials | undefined): TlsMaterial {
  const { ca, cert, key, servername, rejectUnauthorized } = options
  const own = { ...(isPem(cert) ? { cert } : {}), ...(isPem(key) ? { key } : {}) }
  return {
    ...(isPem(ca) ? { ca } : {}),
    ...(credentials === undefined || credentials.certificate === ''
      ? own
      : { cert: credentials.certificate, key: credentials.key }),
    ...(servername === undefined ? {} : { servername }),
    ...(rejectUnauthorized === undefined ? {} : { rejectUnauthorized }),
  }
}

function isPem(value: unknown): value is string | Buffer {
  return typeof value === 'string' || Buffer.isBuffer(value)
}

/** Rejects with the words of Go's os package when the file cannot be read: `stat /x: no such file or directory`. */
async function requireFile(path: string, verb: 'stat' | 'open', shown = path): Promise<void> {
  try {
    await access(path, constants.R_OK)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : ''
    const reason =
      code === 'ENOENT' ? 'no such file or directory' : code === 'EACCES' ? 'permission denied' : String(code)
    throw new CodedError('kubeconfig', `${verb} ${shown}: ${reason}`, { cause: error })
  }
}
