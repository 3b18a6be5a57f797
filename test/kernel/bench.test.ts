/** The part of the bench that runs in the measured kernel, at a size that takes seconds. */
import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import { compile } from '../../dev/bench/floor.ts'
import type { HandoverTask } from '../../dev/bench/handover-guest.ts'
import type { HandoverMeasured } from '../../dev/bench/handover-result.ts'
import { IptablesTable } from '../../dev/bench/iptables-table.ts'
import type { Firewall, Measured, Mode } from '../../dev/bench/result.ts'
import type { Expected } from '../../dev/bench/table-view.ts'
import type { GuestTask, Outcome } from '../../dev/bench/task.ts'
import { rowsOfRun } from '../support/extent.ts'
import { MAIN } from '../support/own-program.ts'
import { needs } from './needs.ts'

const ROOT = join(import.meta.dirname, '../..')
const run = promisify(execFile)

async function outcomeOf(task: Partial<GuestTask>, coldStartSeconds = 300): Promise<Outcome> {
  const whole: GuestTask = {
    program: 'kube-ipvs',
    mode: 'ipvs',
    services: 20,
    endpoints: 2,
    changes: 2,
    virtualAddresses: 'addresses',
    command: MAIN,
    phases: [],
    limits: { coldStartSeconds, changeSeconds: 60, changesSeconds: 20, betweenChangesMs: 20, idleSeconds: 1 },
    ...task,
  }
  return JSON.parse(await guestOutput('guest.ts', whole)) as Outcome // what guest.ts prints
}

async function measured(task: Partial<GuestTask>, coldStartSeconds = 300): Promise<Measured> {
  const outcome = await outcomeOf(task, coldStartSeconds)
  assert.ok('measured' in outcome, JSON.stringify(outcome))
  return outcome.measured
}

const number = (figure: number | null | undefined): number => {
  assert.ok(typeof figure === 'number', JSON.stringify(figure))
  return figure
}

/** Output of a file of dev/bench in a new network namespace, which replaces the fresh boot. */
async function guestOutput(file: string, task: object): Promise<string> {
  const { stdout } = await run('unshare', [
    '--net',
    '--',
    'sh',
    '-c',
    'ip link set lo up && exec "$@"',
    'sh',
    process.execPath,
    join(ROOT, 'dev/bench', file),
    JSON.stringify(task),
  ])
  return stdout
}

function assertColdStart(result: Measured): void {
  assert.equal(result.services, 20)
  assert.ok(number(result.coldStartMs) > 0)
  assert.ok(number(result.coldStartCpuMs) > 0)
  assert.ok(number(result.coldStartMinorFaults) > 1_000)
  assert.ok(number(result.coldStartProcesses) > 0)
  // Twenty Services with as many EndpointSlices, in protobuf.
  assert.ok(number(result.coldStartApiBytes) > 20_000, String(result.coldStartApiBytes))
}

async function measuredTraffic(mode: Mode, firewall?: Firewall): Promise<Measured> {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-traffic-test-'))
  try {
    const compiled = await compile(join(ROOT, 'dev/bench/traffic.c'), folder)
    assert.ok('program' in compiled, JSON.stringify(compiled))
    const traffic = { program: compiled.program, requests: 20, connections: 40, clients: 2 }
    return await measured({ mode, ...(firewall && { firewall }), phases: ['traffic', 'changes'], traffic })
  } finally {
    rmSync(folder, { recursive: true })
  }
}

async function measuredHandover(mode: Mode): Promise<HandoverMeasured> {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-handover-test-'))
  try {
    const compiled = await compile(join(ROOT, 'dev/bench/traffic.c'), folder)
    assert.ok('program' in compiled, JSON.stringify(compiled))
    const task: HandoverTask = {
      event: 'restart',
      mode,
      services: 20,
      endpoints: 2,
      held: 50,
      connections: 200,
      rate: 50,
      command: MAIN,
      traffic: compiled.program,
    }
    return JSON.parse(await guestOutput('handover-guest.ts', task)) as HandoverMeasured // what handover-guest.ts prints
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function assertTraffic(result: Measured): void {
  assert.equal(result.changes, 2)
  assert.ok(number(result.latencyP50Us) > 0)
  assert.ok(number(result.latencyP99Us) >= number(result.latencyP50Us))
  assert.ok(number(result.connectionsPerSecond) > 0)
  assert.ok(number(result.changeP50Ms) > 0)
}

describe('the bench in its guest', { concurrency: true }, () => {
  it('times a cold start in ipvs mode and counts its cost', async () => {
    const result = await measured({ phases: ['changes', 'burst'] })
    assertColdStart(result)
    assert.equal(result.changes, 2)
    assert.ok(number(result.apiBytesPerChange) > 500)
    assert.ok(number(result.burstMs) > 0)
  })

  for (const mode of rowsOfRun(['iptables'] as const, () => false))
    it(`times a cold start in ${mode} mode`, needs('iptables-nft'), async () =>
      assertColdStart(await measured({ mode })),
    )

  const rows = [
    { mode: 'ipvs', firewall: 'iptables' },
    { mode: 'ipvs', firewall: 'nftables' },
    { mode: 'iptables', firewall: undefined },
  ] as const
  for (const { mode, firewall } of rowsOfRun(rows, (row) => row.firewall === 'nftables'))
    it(
      `sends traffic through the ClusterIP in the middle in ${mode} mode${firewall ? ` with ${firewall}` : ''}`,
      needs('iptables-nft', 'program:gcc'),
      async () => {
        const result = await measuredTraffic(mode, firewall)
        assertTraffic(result)
        if (mode === 'ipvs') assert.equal(result.rulesBefore, null)
        else assert.ok(number(result.rulesBefore) >= 0 && number(result.rulesBefore) < 20)
      },
    )

  for (const mode of rowsOfRun(['ipvs', 'iptables'] as const, () => false))
    it(
      `holds and makes connections during a restart in ${mode} mode`,
      needs('iptables-nft', 'program:gcc'),
      async () => {
        const { operations, held, made, failures } = await measuredHandover(mode)
        assert.deepEqual(failures, [])
        assert.deepEqual([held.connections, held.dropped, made.failed], [50, 0, 0])
        assert.ok(made.made >= 200)
        // The kernel was right already.
        assert.equal(operations, 0)
      },
    )

  it('measures a cold start, rest and changes with local routes', async () => {
    const result = await measured({ virtualAddresses: 'routes', phases: ['rest', 'changes'] })
    const { coldStartMs, changes, changeP50Ms, changeP99Ms, idleCpuPercent, rssMiB } = result
    for (const figure of [coldStartMs, changeP50Ms, changeP99Ms, rssMiB]) assert.ok(number(figure) > 0)
    assert.equal(changes, 2)
    assert.ok(number(idleCpuPercent) >= 0)
  })

  it('fails at the limit of the cold start, and says so', async () => {
    const outcome = await outcomeOf({ phases: ['rest', 'changes'] }, 0.02)
    assert.deepEqual(outcome, { failure: 'no complete table after 0.02 s' })
  })

  it('reports a program that ends instead of writing its table', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-bench-test-'))
    try {
      const command = join(folder, 'kube-proxy')
      writeFileSync(command, '#!/bin/sh\necho no such mode; exit 3\n', { mode: 0o755 })
      const outcome = await outcomeOf({ program: 'kube-proxy', command })
      assert.ok(
        'failure' in outcome && /the program ended:\nno such mode/.test(outcome.failure),
        JSON.stringify(outcome),
      )
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it('counts the messages of a change, and watches the event loop', async () => {
    const { messagesPerChange, datagramsPerChange, eventLoopMaxMs } = await measured({ phases: ['inside'] })
    // The endpoint is added and the one before gets weight 0; then its connections are asked for, and it is removed.
    assert.equal(messagesPerChange, 4)
    assert.ok(number(datagramsPerChange) > 0)
    assert.ok(number(eventLoopMaxMs) > 0)
  })
})

describe('IptablesTable', needs('iptables-nft'), () => {
  // The first 16 letters of base32 of the SHA-256 of 'bench-0/service-0:httptcp', and of that with
  // the endpoint at its end.
  const SERVICE = 'KUBE-SVC-SCO22T3NUTFLXREX'
  const expected: Expected = {
    port: 'bench-0/service-0:http',
    address: '10.96.0.10',
    endpoints: new Set(['10.128.0.0:8080']),
  }

  it('finds a Service port when its chain leads to exactly its endpoints and KUBE-SERVICES leads to it', async () => {
    const table = new IptablesTable()
    try {
      assert.equal(await table.isThere(expected), false)
      assert.deepEqual(await table.missing([expected]), [expected])
      const restore = (rules: string): Buffer =>
        execFileSync('iptables-nft-restore', ['--noflush'], { input: `*nat\n${rules}\nCOMMIT\n` })
      restore(`:${SERVICE} - [0:0]
:KUBE-SEP-DL3LIKEASCTWTRVV - [0:0]
-A ${SERVICE} -m comment --comment "bench-0/service-0:http -> 10.128.0.0:8080" -j KUBE-SEP-DL3LIKEASCTWTRVV`)
      assert.equal(await table.isThere(expected), true)
      assert.equal(await table.hasEndpoint(expected, '10.128.0.0:8080'), true)
      assert.equal(await table.hasEndpoint(expected, '10.128.0.1:8080'), false)
      assert.deepEqual(await table.missing([expected]), [expected])
      restore(`:KUBE-SERVICES - [0:0]
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "bench-0/service-0:http cluster IP" -m tcp --dport 80 -j ${SERVICE}`)
      assert.deepEqual(await table.missing([expected]), [])
      assert.equal(await table.rulesBefore(expected), 0)
      await assert.rejects(table.rulesBefore({ ...expected, port: 'bench-0/service-1:http' }), /no rule of bench-0/)
      assert.equal(await table.isThere({ ...expected, endpoints: new Set() }), false)
    } finally {
      table.close()
    }
  })
})
