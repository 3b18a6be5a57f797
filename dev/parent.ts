/**
 * Ends this program when the bootstrap that started it is gone: npm kills only what it knows.
 * What could break: polling is the only way to see it without a native call, so it may take a second.
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
