/**
 * Two programs that write the same items: the report, the Event, the metric, and that other items
 * are not slowed down.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, writeFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { freshNode, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { parseMetrics } from '../support/metrics-text.ts'
import { needs } from './needs.ts'

const RIVAL = /"Problem with an object" object="node0" reason="another program changed ([^"]*)/g
const METRICS = '127.0.0.1:10249'

let bench: Workbench
let writer: ChildProcess | undefined
beforeEach(() => {
  freshNode()
  bench = new Workbench({}, { metricsBindAddress: METRICS })
})
afterEach(async () => {
  if (writer !== undefined && writer.exitCode === null && writer.kill('SIGKILL')) await once(writer, 'exit')
  writer = undefined
  await bench.close()
})

/** Runs shell commands again and again, in a process whose name is kube-proxy. */
function startRival(commands: string): ChildProcess {
  const script = `${bench.directory}.d`
  sh(`mkdir ${script}`)
  writeFileSync(`${script}/kube-proxy`, `#!/bin/sh\nwhile :; do ${commands}; sleep 0.1; done 2>/dev/null\n`)
  chmodSync(`${script}/kube-proxy`, 0o755)
  writer = spawn(`${script}/kube-proxy`, { stdio: 'ignore' })
  return writer
}

const reports = (): string[] => Array.from(bench.log.matchAll(RIVAL), ([, text]) => text ?? '')
/** Repairs of the items at this address. */
const repairsOf = (address: string): number =>
  bench.log
    .split('\n')
    .filter((line) => line.includes('Repaired a change that another program made') && line.includes(address)).length

async function rivalWrites(table: string): Promise<number> {
  const text = await (await fetch(`http://${METRICS}/metrics`)).text()
  const samples = parseMetrics(text).get('kubeipvs_rival_writes_total')?.samples ?? []
  return samples.find(({ labels }) => labels.get('table') === table)?.value ?? 0
}

const weights = (): string[] => virtualServers().filter((line) => line.startsWith('-a'))

describe('another program that keeps writing our items', () => {
  beforeEach(async () => {
    bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.1']))
    bench.start()
    await eventually(() => assert.equal(weights().length, 1))
  })

  it('is reported once with its name and pid, and its item is repaired more slowly than others', async () => {
    const rival = startRival('ipvsadm -e -t 10.96.0.1:80 -r 10.244.0.1:8080 -m -w 7')
    await eventually(() => assert.equal(reports().length, 1, bench.log), 30_000)
    assert.match(reports()[0] ?? '', /^10\.96\.0\.1:80\/tcp of virtual-servers 3 times/)
    await eventually(() => assert.match(bench.log, new RegExp(`kube-proxy.{1,3} \\(pid ${rival.pid}\\)`)))
    const { processes } = JSON.parse((await bench.command('status', '--output', 'json')).stdout)
    assert.ok(processes.some((one: unknown) => isDeepStrictEqual(one, { pid: rival.pid, name: 'kube-proxy' })))
    await eventually(() => assert.match(bench.log, /"Event occurred" object="node0" .*reason="AnotherProxyWrites"/))
    // The ports of a slow start open later than its first repairs.
    await eventually(async () => assert.ok((await rivalWrites('virtual-servers')) >= 1))
    // Another item is still repaired at once, and a change of ours to the contested one is written at once.
    bench.write('other.yaml', service('other', { clusterIP: '10.96.0.2' }), slice('other', ['10.244.0.2']))
    await eventually(() => assert.equal(weights().length, 2))
    sh('ipvsadm -d -t 10.96.0.2:80 -r 10.244.0.2:8080')
    await eventually(() => assert.equal(weights().length, 2))
    // The line may be read a moment after the kernel has the item.
    await eventually(() => assert.equal(repairsOf('10.96.0.2'), 1))
    const counted = await rivalWrites('virtual-servers')
    await eventually(async () => assert.ok((await rivalWrites('virtual-servers')) > counted), 60_000)
    assert.equal(reports().length, 1)
    // It never stops: the item is right again some time after the other program has ended.
    rival.kill('SIGKILL')
    await eventually(() => assert.ok(weights().every((line) => line.endsWith('-w 1'))), 60_000)
  })

  it('is reported for rules, too', needs('iptables-nft'), async () => {
    startRival('iptables -w -t nat -F KUBE-SERVICES')
    await eventually(() => assert.equal(reports().length, 1, bench.log), 30_000)
    assert.match(reports()[0] ?? '', /^nat KUBE-SERVICES of chains-IPv4 3 times/)
    await eventually(async () => assert.ok((await rivalWrites('chains-IPv4')) >= 1))
  })

  it('is named by the announcement of its change when its name is unknown', async () => {
    const address = '10.96.0.1/32'
    // A process that stays: the port id of its socket is its id.
    writer = spawn('ip', ['-force', '-batch', '-'], { stdio: ['pipe', 'ignore', 'ignore'] })
    const { stdin, pid } = writer
    assert.ok(stdin !== null)
    const timer = setInterval(() => stdin.write(`address delete ${address} dev kube-ipvs0\n`), 50)
    try {
      await eventually(() => assert.equal(reports().length, 1, bench.log), 30_000)
      await eventually(() =>
        assert.match(bench.log, new RegExp(`10\\.96\\.0\\.1 of addresses .*ip.{1,3} \\(pid ${pid}\\)`)),
      )
      await eventually(async () => assert.ok((await rivalWrites('addresses')) >= 1))
    } finally {
      clearInterval(timer)
      stdin.end()
    }
  })
})
