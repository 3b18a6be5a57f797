/**
 * The demo itself, on the kernel with IPVS: network, pods, daemon, requests, the table, and then
 * its changes. With KUBE_IPVS_DEMO_JSON stdout gets only the one JSON object.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { release, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openNetlinkConnection } from '../../native/open.ts'
import { finishLine } from '../../src/start/output.ts'
import { styleFor } from '../../src/start/style.ts'
import { IpvsConnection } from '../../src/ipvs/connection.ts'
import { NETLINK_GENERIC } from '../../src/netlink/constants.ts'
import { Children, startClient, startDaemon } from './children.ts'
import { type Expected, expectedOf } from './expected.ts'
import { patience } from './patience.ts'
import { ask, Requests } from './requests.ts'
import { changes, isComplete, readTable, type Table, tableText } from './table.ts'
import { buildTopology, CLIENT, NODE, POD_PORT, PODS } from './topology.ts'

const project = join(import.meta.dirname, '../..')
const examples = join(project, 'examples')
/** The entry of the bundle. */
const [program = ''] = process.argv.slice(2)
const requestsEach = 6
const completeMs = patience(30_000)
const lookMs = 200
const trickleMs = 2000

const json = process.env['KUBE_IPVS_DEMO_JSON'] === '1'
const terminal = process.env['KUBE_IPVS_DEMO_TERMINAL'] === '1'
const follows = process.env['KUBE_IPVS_DEMO_FOLLOW'] === '1'
/** `nftables`, or `iptables-BACKEND`; undefined: the daemon chooses. */
const [firewall, backEnd] = process.env['KUBE_IPVS_DEMO_FIREWALL']?.split('-') ?? []
const style = styleFor({ isTTY: terminal }, { ...process.env, TERM: '' })

const stopped = new AbortController()
process.once('SIGTERM', () => stopped.abort())
process.once('SIGINT', () => stopped.abort())

const say = (text: string): void => void process.stderr.write(`${finishLine(text)}\n`)
const show = (text: string): void => void (json ? process.stderr : process.stdout).write(`${finishLine(text)}\n`)
const podOf = (realServer: string): string => {
  const pod = PODS.find(({ ipv4, ipv6 }) => [`${ipv4}:${POD_PORT}`, `[${ipv6}]:${POD_PORT}`].includes(realServer))
  return pod?.name ?? ''
}
const expectedNow = (): Expected[] | undefined => expectedOf(examples, [NODE.ipv4, NODE.ipv6])

async function main(folder: string, children: Children): Promise<number> {
  const signal = stopped.signal
  say(`kernel ${release()}: building namespaces for ${PODS.length} pods and a client`)
  buildTopology(backEnd)
  const daemon = startDaemon(children, {
    program,
    project,
    folder,
    firewall,
    complain: (line) => say(style('yellow', line)),
  })
  const pods = PODS.map((pod) => children.startIn(pod.name, 'pod', pod.name, String(POD_PORT)))
  const client = startClient(children, CLIENT.name)
  await Promise.race([Promise.all([...pods, client]), daemon.died])
  const from = { node: ask, client: await client }

  const startedAt = performance.now()
  const ipvs = await openIpvs(signal)
  say('pods answer; waiting until the table is complete')
  let table: Table = []
  let expected = expectedNow() ?? []
  while (!isComplete(table, expected)) {
    if (performance.now() - startedAt > completeMs) throw new Error(`the table is not complete:\n${daemon.log()}`)
    await Promise.race([sleep(lookMs, undefined, { signal }), daemon.died])
    table = await readTable(ipvs, signal)
    expected = expectedNow() ?? expected
  }
  const line = backEnd ?? firewall
  if (line !== undefined && !daemon.log().includes(`="${line}"`))
    throw new Error(`the daemon does not use ${line}:\n${daemon.log()}`)
  const requests = new Requests()
  say(`sending ${requestsEach} requests to each of ${expected.length} addresses`)
  await requests.send(requestsEach, expected, from, signal)
  table = await readTable(ipvs, signal)
  const showTable = (): void => {
    show('')
    for (const line of tableText(table, expected, requests.answers, podOf, style)) show(line)
    show('')
  }
  showTable()
  if (!follows) return summarize(table, requests)

  show(`Following. Edit a manifest in ${examples} and see the table change; Ctrl-C ends.`)
  let nextRequestsAt = performance.now() + trickleMs
  while (!signal.aborted) {
    await Promise.race([sleep(lookMs, undefined, { signal }), daemon.died])
    const fresh = await readTable(ipvs, signal)
    const differences = changes(table, fresh)
    table = fresh
    if (differences.length > 0) {
      show(new Date().toISOString().slice(11, 23))
      for (const line of differences) show(style(line.startsWith('-') ? 'red' : 'green', line))
      expected = expectedNow() ?? expected
    }
    if (!isComplete(table, expected)) continue // the daemon is still writing an edit
    if (differences.length === 0 && performance.now() < nextRequestsAt) continue
    await requests.send(1, expected, from, signal)
    nextRequestsAt = performance.now() + trickleMs
    if (differences.length > 0) showTable()
  }
  return 0
}

async function openIpvs(signal: AbortSignal): Promise<IpvsConnection> {
  return IpvsConnection.open(openNetlinkConnection(NETLINK_GENERIC), { signal })
}

function summarize(table: Table, requests: Requests): number {
  const count = requests.count
  const realServers = table.reduce((sum, virtual) => sum + virtual.realServers.length, 0)
  const summary = { mode: 'ipvs', kernel: release(), virtualServers: table.length, realServers, requests: count }
  if (json) process.stdout.write(`${JSON.stringify(summary)}\n`)
  else {
    show(`kernel ${release()}, mode ipvs: ${table.length} virtual servers, ${realServers} real servers`)
    show(`${count.sent} requests sent, ${count.answered} answered`)
  }
  for (const [url, times] of requests.unanswered) say(`${times} of ${requestsEach} requests to ${url} got no answer`)
  return count.sent > 0 && count.answered === count.sent ? 0 : 1
}

const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-demo-'))
const children = new Children()
try {
  process.exitCode = await main(folder, children)
} catch (error) {
  if (stopped.signal.aborted) process.exitCode = follows ? 0 : 130
  else {
    say(error instanceof Error ? error.message : String(error))
    process.exitCode = 1
  }
} finally {
  await children.close()
  rmSync(folder, { recursive: true, force: true })
}
process.exit()
