/**
 * What the nftables firewall costs on this machine's own kernel, as processor time of this process: the start, a restart that finds its tables, lost
 * announcements, the end, and single changes; with the longest stretch in which the event loop did not turn.
 * `unshare -n node --expose-gc test/nftables/firewall-cost.ts --services 50000`
 */
import { parseArgs } from 'node:util'
import { NetlinkSocket } from '../../native/netlink-socket.ts'
import { NFTABLES_FIREWALL } from '../../src/modes/ipvs/nftables-firewall/kernel.ts'
import type { FirewallOptions } from '../../src/modes/ipvs/firewall.ts'
import type { AddressFrontend } from '../../src/service/frontends.ts'
import { Reconciler } from '../../src/sync/reconciler.ts'
import { parseCidr } from '../../src/values/cidr.ts'
import { newBudget } from '../../src/values/event-loop.ts'
import { silentLog } from '../../src/values/log.ts'
import { frontendOf } from '../support/frontends.ts'

const { values } = parseArgs({ options: { services: { type: 'string', default: '10000' } } })
const SERVICES = Number(values.services)
const CHANGES = 300
const signal = new AbortController().signal
const now = (): number => performance.now()

const milliseconds = ({ user, system }: NodeJS.CpuUsage): number => (user + system) / 1000
const ofProcess = (): number => milliseconds(process.cpuUsage())
const ofThread = (): number => milliseconds(process.threadCpuUsage())

/** Processor time in `sendto` and `recvfrom`: that of the kernel for messages. */
let kernelMs = 0
function inKernel<Result>(work: () => Result): Result {
  const beganMs = ofThread()
  try {
    return work()
  } finally {
    kernelMs += ofThread() - beganMs
  }
}
const { send, receive } = NetlinkSocket.prototype
NetlinkSocket.prototype.send = function (bytes) {
  return inKernel(() => send.call(this, bytes))
}
NetlinkSocket.prototype.receive = function () {
  return inKernel(() => receive.call(this))
}

/** Prints what work costs. `of`: how many times it does the same. */
async function measured(name: string, work: () => Promise<unknown>, of = 1): Promise<void> {
  // With --expose-gc, so that what was made before is not collected meanwhile.
  globalThis.gc?.()
  let [isOver, longestMs, turnedMs] = [false, 0, ofThread()]
  const beganMs = ofProcess()
  kernelMs = 0
  const turned = (): void => {
    const nowMs = ofThread()
    longestMs = Math.max(longestMs, nowMs - turnedMs)
    turnedMs = nowMs
    if (!isOver) setImmediate(turned)
  }
  setImmediate(turned)
  await work()
  const costMs = (ofProcess() - beganMs) / of
  isOver = true
  turned()
  const figures = { ms: costMs, kernelMs: kernelMs / of, longestMs }
  const texts = Object.entries(figures).map(([key, ms]) => `${key} ${ms.toFixed(of === 1 ? 1 : 3)}`)
  process.stdout.write(`${name.padEnd(36)} ${texts.join('  ')}\n`)
}

async function openFirewall() {
  const opened = await NFTABLES_FIREWALL.open({ families: ['IPv4', 'IPv6'], lacks: [] }, signal)
  const settings = {
    detectLocalMode: 'ClusterCIDR',
    clusterCIDR: '10.244.0.0/16',
    detectLocal: { bridgeInterface: '', interfaceNamePrefix: '' },
    iptables: { masqueradeAll: false, masqueradeBit: 14 },
  }
  const listener = { partPassed: () => undefined, postponedReady: () => undefined }
  const common = { settings, nodeName: 'node0', serves: () => true, problems: { report: () => undefined }, listener }
  // The firewall reads no other field of the configuration.
  const firewall = opened.create({ ...common, log: silentLog, now } as unknown as FirewallOptions)
  const reconciler = new Reconciler(firewall.stages(() => undefined))
  const pass = async (): Promise<void> => {
    const { failures } = await reconciler.pass({ signal, now, mayRemove: true })
    firewall.passed(true)
    const [failure] = failures
    if (failure !== undefined) throw failure.error
  }
  const settle = async (): Promise<void> => {
    do await pass()
    while (reconciler.nextDueMs() === 0)
  }
  return { firewall, pass, settle }
}

const cluster = Array.from({ length: SERVICES }, (_, index) =>
  frontendOf({ address: `10.${96 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}` }, ['10.244.1.1']),
)

type Opened = Awaited<ReturnType<typeof openFirewall>>

async function want({ firewall }: Opened, wanted = true): Promise<void> {
  const budget = newBudget()
  for (const one of cluster) {
    firewall.frontend(one.key, wanted ? one : undefined)
    if (budget.spent()) await budget.turn()
  }
}

const added = (index: number): AddressFrontend =>
  frontendOf({ address: `10.95.0.${index & 127}`, port: 80 + index }, ['10.244.1.1'])
function guarded(index: number): AddressFrontend {
  const ranges = ['192.0.2.0/24', `198.51.100.${index & 127}/32`].flatMap((text) => parseCidr(text) ?? [])
  const firewall = { ranges, allowsNode: true }
  return frontendOf({ roles: ['LoadBalancerVip'], address: '203.0.113.10', firewall }, ['10.244.1.1'])
}

async function change(opened: Opened, name: string, made: ((index: number) => AddressFrontend) | undefined) {
  const changes = async (from: number): Promise<void> => {
    for (let index = from; index < from + CHANGES; index++) {
      const one = made?.(index)
      if (one !== undefined) opened.firewall.frontend(one.key, one)
      await opened.pass()
    }
  }
  await changes(0)
  await measured(name, () => changes(CHANGES), CHANGES)
}

const first = await openFirewall()
await first.settle()
await measured('rendered', () => want(first))
await measured('written', first.settle)
await first.firewall.close()

const second = await openFirewall()
await measured('rendered by another process', () => want(second))
await measured('taken over as they are', second.settle)
await change(second, 'one pass without a change', undefined)
await change(second, 'one Service added', added)
await change(second, 'source ranges changed', guarded)
await measured('nothing is wanted', () => want(second, false))
await measured('removed', second.settle)
await second.firewall.close()
