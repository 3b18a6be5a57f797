/**
 * `--init-only`: writes the kernel's settings, which takes more rights than the proxy needs afterwards, and ends. It reads no
 * Service and sends no request to the API server, so it works in an init container.
 */
import type { KubeProxyConfiguration } from '../config/types.ts'
import { openIpvsKernel } from '../modes/ipvs/ipvs-kernel.ts'
import { kernelFamilies } from '../node/families.ts'
import { ProblemLog } from '../serve/problem-log.ts'
import type { Log } from '../values/log.ts'
import { initializeIptablesNode, initializeNode } from '../modes/prepare-node.ts'

const DEADLINE_MS = 10_000

/** Rejects when the kernel has no IPVS, or lacks the scheduler. */
export async function initializeOnly(configuration: KubeProxyConfiguration, log: Log): Promise<void> {
  const problems = new ProblemLog(log)
  log.info(`Using ${configuration.mode} Proxier`)
  // As kube-proxy: the proxy that starts afterwards may lack the right to do it.
  if (configuration.mode === 'iptables') initializeIptablesNode({ configuration, problems, log })?.()
  else await initializeIpvsNode(configuration, problems, log)
  for (const ipFamily of kernelFamilies().families)
    log.info('System initialized and --init-only specified', { ipFamily })
}

async function initializeIpvsNode(
  configuration: KubeProxyConfiguration,
  problems: ProblemLog,
  log: Log,
): Promise<void> {
  const signal = AbortSignal.timeout(DEADLINE_MS)
  const kernel = await openIpvsKernel([], signal)
  try {
    await initializeNode({ configuration, kernel, problems, log, signal })
  } finally {
    kernel.close()
  }
}
