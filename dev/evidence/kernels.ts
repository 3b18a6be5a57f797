/**
 * The kernel matrix: the demo and a core of the kernel tests on every kernel that this repository
 * can come by, with each firewall of ipvs mode that the kernel has.
 */
import { bundle } from '../bundle.ts'
import { ensurePackages } from '../packages.mjs'
import { FIREWALLS, formatCell, KERNELS, type KernelResult, problemsOf } from './kernels/cells.ts'
import { runKernel } from './kernels/run.ts'
import type { Part } from './part.ts'

const TOOLS = ['ip', 'ipvsadm', 'iptables', 'ipset', 'conntrack', 'nft', 'sysctl']

export const kernels: Part = {
  name: 'kernels',
  purpose: 'the demo and a core of kernel tests on kernels of Debian 12 and 13 and on 7.2, with each firewall',
  run: async ({ signal }) => {
    await ensurePackages(TOOLS)
    const { entry } = await bundle()
    const results: KernelResult[] = []
    for (const kernel of KERNELS) {
      results.push(await runKernel(kernel, entry, signal))
      signal.throwIfAborted()
    }
    const cells = results.flatMap(({ firewalls }) => FIREWALLS.map((name) => firewalls[name]))
    const count = (verdict: string): number => cells.filter((cell) => cell.verdict === verdict).length
    return {
      problems: problemsOf(results),
      passed: count('passed'),
      failed: count('failed'),
      unmet: count('unmet'),
      cells: Object.fromEntries(
        results.map(({ kernel, release, what, firewalls }) => [
          `${kernel} (${release === undefined ? '' : `Linux ${release}, `}${what})`,
          Object.fromEntries(FIREWALLS.map((name) => [name, formatCell(firewalls[name])])),
        ]),
      ),
      kernels: results,
    }
  },
}
