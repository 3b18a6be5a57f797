/** What the proxy of this node, kube-proxy or kube-ipvs, says of itself at its metrics address. */
import { splitHostPort } from '../config/go-text.ts'

/** A port on which nothing listens refuses at once; a proxy on a busy node may need seconds. */
const ANSWER_MS = 5000
const MODE = /^[a-z]{1,20}$/
const OURS = /^kubeipvs_/m
const FALLBACK = /^kubeipvs_mode\{[^}]*reason="([a-z-]{1,40})"/m

/**
 * The mode of the proxy that runs on this node: kube-proxy and this program answer /proxyMode at their metrics address.
 * `ipvs`, `iptables`, `nftables` …; undefined when no proxy answers at this `IP:port`.
 */
export async function runningMode(metricsBindAddress: string): Promise<string | undefined> {
  const text = await ask(metricsBindAddress, '/proxyMode')
  return MODE.test(text) ? text : undefined
}

/** The mode of that proxy, null when none answers; and whether it has metrics that only kube-ipvs has. */
export async function runningProxy(
  metricsBindAddress: string,
): Promise<{ readonly mode: string | null; readonly isOurs: boolean }> {
  const mode = (await runningMode(metricsBindAddress)) ?? null
  return { mode, isOurs: mode !== null && OURS.test(await ask(metricsBindAddress, '/metrics')) }
}

/** Why the proxy that runs on this node fell back to iptables mode; '' when it did not, or tells no reason. */
export async function fallbackReason(metricsBindAddress: string): Promise<string> {
  return FALLBACK.exec(await ask(metricsBindAddress, '/metrics'))?.[1] ?? ''
}

/** What the proxy on this node answers; '' without an answer. */
async function ask(metricsBindAddress: string, path: string): Promise<string> {
  try {
    const answer = await fetch(`http://${reachable(metricsBindAddress)}${path}`, {
      redirect: 'error',
      signal: AbortSignal.timeout(ANSWER_MS),
    })
    return answer.ok ? await answer.text() : ''
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
