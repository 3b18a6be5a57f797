/**
 * `--init-only`: writes the kernel's settings, which takes more rights than the proxy needs afterwards, and ends.
 * What could break: no Service is looked at and nothing is asked of the API server, so it works in an init container.
 */
import { openIpvsKernel } from '../dataplane/ipvs-kernel.ts'
import { ipFamilies } from '../node/host.ts'
import { ProblemLog } from '../serve/problem-log.ts'
import type { Log } from '../values/log.ts'
import { initializeNode } from './prepare-node.ts'
import { requireIpvsMode, type Settings } from './settings.ts'

const DEADLINE_MS = 10_000

/** Resolves to the exit code. Rejects when the kernel has no IPVS, or lacks the scheduler. */
export async function initializeOnly({ configuration }: Settings, log: Log): Promise<number> {
  requireIpvsMode(configuration)
  const signal = AbortSignal.timeout(DEADLINE_MS)
  log.info('Using ipvs Proxier')
  const kernel = await openIpvsKernel([], signal)
  try {
    await initializeNode({ configuration, kernel, problems: new ProblemLog(log), log, signal })
    for (const ipFamily of ipFamilies()) log.info('System initialized and --init-only specified', { ipFamily })
    return 0
  } finally {
    kernel.close()
  }
}
