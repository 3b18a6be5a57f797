/** The cells of the kernel matrix, and what their results amount to. */
import { type FileResult, totalsOf } from '../../testing/result.ts'

export const FIREWALLS = ['iptables-nft', 'iptables-legacy', 'nftables'] as const
export type FirewallName = (typeof FIREWALLS)[number]

/** A kernel of the matrix, and how this repository comes by it. */
export interface MatrixKernel {
  readonly name: string
  readonly provider: 'uml' | 'qemu' | 'image'
  /** Of Debian; absent for the image of this repository. */
  readonly release?: 'bookworm' | 'trixie'
  readonly what: string
}

const UML = 'user-mode-linux of Debian'
const STOCK = 'stock kernel of Debian'

/** The fast ones first. */
export const KERNELS: readonly MatrixKernel[] = [
  { name: '7.2', provider: 'image', what: 'image of this repository' },
  { name: 'uml-6.1', provider: 'uml', release: 'bookworm', what: `${UML} 12` },
  { name: 'uml-6.12', provider: 'uml', release: 'trixie', what: `${UML} 13` },
  { name: 'debian-12', provider: 'qemu', release: 'bookworm', what: `${STOCK} 12 in qemu` },
  { name: 'debian-13', provider: 'qemu', release: 'trixie', what: `${STOCK} 13 in qemu` },
]

/** What needs no firewall of the daemon: virtual servers, sets, links and addresses over netlink. */
export const INTERFACE_TESTS = ['ipvs-codec', 'ipset', 'netlink-rtnetlink'].map((name) => `test/kernel/${name}.test.ts`)
export const coreTestOf = (firewall: FirewallName): string => `test/kernel/core/${firewall}.test.ts`

/** What was counted of tests; `unmet` has what the kernel lacks, as the tests have asked it. */
export interface Counts {
  readonly passed: number
  readonly failed: number
  readonly unmet: readonly string[]
  /** Names of what failed. */
  readonly failures?: readonly string[]
}

export interface DemoResult {
  readonly virtualServers: number
  readonly realServers: number
  readonly sent: number
  readonly answered: number
  readonly seconds: number
}

/** `unmet`: nothing of it could run here. A failed cell is never called anything else. */
export type Verdict = 'passed' | 'failed' | 'unmet'

export interface Cell {
  readonly verdict: Verdict
  /** Why not, for people. */
  readonly reason?: string
  readonly tests: Counts
  /** Absent where it was not run, because the firewall does not exist there. */
  readonly demo?: DemoResult
}

export function countsOf(results: readonly FileResult[]): Counts {
  const { passed, failed, unmet } = totalsOf(results)
  const failures = results.flatMap(({ file, failures: all }) => all.map(({ name }) => `${file} > ${name}`))
  return { passed, failed, unmet: [...unmet.keys()].sort(), ...(failures.length === 0 ? {} : { failures }) }
}

/** Failed tests count before anything that is unmet; a cell without a test that passed is no success. */
export function verdictOf({ passed, failed, unmet }: Counts): Verdict {
  if (failed > 0) return 'failed'
  if (passed > 0) return 'passed'
  return unmet.length > 0 ? 'unmet' : 'failed'
}

/** A cell of a firewall. `demo` is why it failed, or undefined where it was not run. */
export function cellOf(tests: Counts, demo: DemoResult | string | undefined): Cell {
  const verdict = verdictOf(tests)
  if (verdict === 'unmet') return { verdict, reason: `the kernel lacks ${tests.unmet.join(', ')}`, tests }
  if (verdict === 'failed') {
    const reason = tests.failures?.join('; ') ?? 'no test has run'
    return { verdict, reason, tests, ...(typeof demo === 'object' ? { demo } : {}) }
  }
  if (demo === undefined) return { verdict: 'failed', reason: 'the demo was not run', tests }
  if (typeof demo === 'string') return { verdict: 'failed', reason: `demo: ${demo}`, tests }
  if (demo.sent === 0 || demo.answered < demo.sent)
    return { verdict: 'failed', reason: `demo: ${demo.answered} of ${demo.sent} requests were answered`, tests, demo }
  return { verdict, tests, demo }
}

/** A kernel that could not be had or did not start: every cell is unmet, for this reason. */
export function unmetCells(reason: string): Readonly<Record<FirewallName, Cell>> {
  const cell: Cell = { verdict: 'unmet', reason, tests: { passed: 0, failed: 0, unmet: [] } }
  return { 'iptables-nft': cell, 'iptables-legacy': cell, nftables: cell }
}

export interface KernelResult {
  readonly kernel: string
  readonly what: string
  /** `uname -r`; absent where it did not start. */
  readonly release?: string
  readonly interface: Counts
  readonly firewalls: Readonly<Record<FirewallName, Cell>>
  readonly seconds: number
}

/** One sentence for each kernel whose tests failed, and for each failed cell; also where none has passed. */
export function problemsOf(results: readonly KernelResult[]): readonly string[] {
  const passed = results.some(({ firewalls }) => FIREWALLS.some((name) => firewalls[name].verdict === 'passed'))
  const failed = results.flatMap(({ kernel, interface: base, firewalls }) => [
    ...(base.failed > 0 ? [`${kernel}: ${base.failures?.join('; ') ?? `${base.failed} tests failed`}`] : []),
    ...FIREWALLS.flatMap((name) => {
      const { verdict, reason = '' } = firewalls[name]
      return verdict === 'failed' ? [`${kernel} with ${name}: ${reason}`] : []
    }),
  ])
  return passed || failed.length > 0 ? failed : ['no cell has passed']
}

/** A line for the page: `passed: 25 tests, 126 of 126 requests`. */
export function formatCell({ verdict, reason, tests, demo }: Cell): string {
  if (verdict === 'unmet') return `unmet: ${reason}`
  const requests = demo === undefined ? 'no demo' : `${demo.answered} of ${demo.sent} requests of the demo`
  const unmet = tests.unmet.length === 0 ? '' : `, unmet: ${tests.unmet.join(', ')}`
  return `${verdict}: ${tests.passed} tests, ${requests}${unmet}${reason === undefined ? '' : ` (${reason})`}`
}
