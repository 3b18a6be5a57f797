/**
 * Ends this program when the bootstrap that started it has ended: npm kills only its direct child.
 * It polls, because nothing else detects that without a native call, so it may take a second.
 */

const intervalMs = 1000

/** Aborts `stopped` once the process that KUBE_IPVS_PARENT names is no longer our parent. */
export function endWithParent(stopped: AbortController): void {
  const parent = Number(process.env['KUBE_IPVS_PARENT'] ?? '')
  if (!(parent > 1) || process.ppid !== parent) return
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    stopped.abort()
  }, intervalMs)
  timer.unref()
}
