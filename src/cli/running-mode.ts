/**
 * The mode of the proxy that runs on this node, as it says itself: kube-proxy and this program answer /proxyMode at their
 * metrics address. Nobody has to answer; the kernel shows what was written all the same.
 */
import { splitHostPort } from '../config/go-text.ts'

/** A proxy on this machine answers at once or not at all. */
const ANSWER_MS = 1000
const MODE = /^[a-z]{1,20}$/

/** `ipvs`, `iptables`, `nftables` …; undefined when no proxy answers at this `IP:port`. */
export async function runningMode(metricsBindAddress: string): Promise<string | undefined> {
  try {
    const answer = await fetch(`http://${reachable(metricsBindAddress)}/proxyMode`, {
      redirect: 'error',
      signal: AbortSignal.timeout(ANSWER_MS),
    })
    const text = answer.ok ? await answer.text() : ''
    return MODE.test(text) ? text : undefined
  } catch {
    return undefined
  }
}

/** Where one reaches what listens at an address: at loopback when it is every address. */
function reachable(metricsBindAddress: string): string {
  const split = splitHostPort(metricsBindAddress)
  if ('error' in split) return metricsBindAddress
  const { host, port } = split
  if (host === '0.0.0.0') return `127.0.0.1:${port}`
  if (host === '::') return `[::1]:${port}`
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}
