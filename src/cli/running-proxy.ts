/**
 * What the proxy of this node, kube-proxy or kube-ipvs, says of itself at its metrics address.
 * While no proxy runs, any user of the node may listen there, so an answer is believed only of a
 * listener of root or of the user who asks, and read up to a bound.
 */
import { splitHostPort } from '../config/go-text.ts'
import { plainAnswer } from '../inspect/plain-answer.ts'
import { listenerUser } from '../node/listeners.ts'

/** A port on which nothing listens refuses at once; a proxy on a busy node may need seconds. */
const ANSWER_MS = 5000
const MAX_MODE_BYTES = 1024
/**
 * Families are sorted by name, so what is looked for comes before the families that grow with the
 * number of Services.
 */
const MAX_PAGE_BYTES = 1 << 20
const MODE = /^[a-z]{1,20}$/
const OURS = /^kubeipvs_/m
const FALLBACK = /^kubeipvs_mode\{[^}\n]*reason="([a-z-]{1,40})"/m

export interface RunningProxyOptions {
  /** Gets why an answer was not believed. */
  readonly warn?: (text: string) => void
  /** Replaces the kernel's list of listeners in tests. */
  readonly userOf?: typeof listenerUser
}

/**
 * The mode of the proxy that runs on this node: kube-proxy and this program answer /proxyMode at
 * their metrics address. `ipvs`, `iptables`, `nftables` …; undefined when no proxy answers at this
 * `IP:port`.
 */
export async function runningMode(
  metricsBindAddress: string,
  options: RunningProxyOptions = {},
): Promise<string | undefined> {
  const text = await ask(metricsBindAddress, '/proxyMode', MAX_MODE_BYTES, options)
  return MODE.test(text) ? text : undefined
}

/** The mode of that proxy, null when none answers; and whether it has metrics that only kube-ipvs has. */
export async function runningProxy(
  metricsBindAddress: string,
  options: RunningProxyOptions = {},
): Promise<{ readonly mode: string | null; readonly isOurs: boolean }> {
  const mode = (await runningMode(metricsBindAddress, options)) ?? null
  if (mode === null) return { mode, isOurs: false }
  return { mode, isOurs: OURS.test(await ask(metricsBindAddress, '/metrics', MAX_PAGE_BYTES, options)) }
}

/** Why the proxy that runs on this node fell back to iptables mode; '' when it did not, or tells no reason. */
export async function fallbackReason(metricsBindAddress: string, options: RunningProxyOptions = {}): Promise<string> {
  return FALLBACK.exec(await ask(metricsBindAddress, '/metrics', MAX_PAGE_BYTES, options))?.[1] ?? ''
}

/** The first bytes of what the proxy on this node answers; '' without an answer, and for one that is not believed. */
async function ask(
  metricsBindAddress: string,
  path: string,
  maxBytes: number,
  { warn, userOf = listenerUser }: RunningProxyOptions,
): Promise<string> {
  const split = splitHostPort(metricsBindAddress)
  const user = 'error' in split ? undefined : await userOf(split.host, Number(split.port))
  if (user !== undefined && user !== 0 && user !== process.getuid?.()) {
    warn?.(`what listens at ${metricsBindAddress} belongs to the user ${user} and is no proxy, so it was not asked`)
    return ''
  }
  try {
    return await plainAnswer(`http://${reachable(metricsBindAddress)}${path}`, maxBytes, ANSWER_MS)
  } catch {
    return ''
  }
}

/** Where a program that listens at an address can be reached: at loopback when it listens at every address. */
function reachable(metricsBindAddress: string): string {
  const split = splitHostPort(metricsBindAddress)
  if ('error' in split) return metricsBindAddress
  const { host, port } = split
  if (host === '0.0.0.0') return `127.0.0.1:${port}`
  if (host === '::') return `[::1]:${port}`
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}
