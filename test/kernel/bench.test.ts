/** The part of the bench that runs in the measured kernel, at a size that takes seconds. */
import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import type { CellOutcome } from '../../dev/bench/cell.ts'
import { compile } from '../../dev/bench/floor.ts'
import type { GuestTask } from '../../dev/bench/guest.ts'
import type { HandoverTask } from '../../dev/bench/handover-guest.ts'
import type { HandoverMeasured } from '../../dev/bench/handover-result.ts'
import { IptablesTable } from '../../dev/bench/iptables-table.ts'
import { NftablesTable } from '../../dev/bench/nftables-table.ts'
import type { Measured, Mode } from '../../dev/bench/result.ts'
import type { Expected } from '../../dev/bench/table-view.ts'
import type { TrafficMeasured } from '../../dev/bench/traffic.ts'
import { NODE_FLAGS } from '../../dev/node-flags.ts'
import { needs } from './needs.ts'

const ROOT = join(import.meta.dirname, '../..')
const PROGRAM = process.env['KUBE_IPVS_PROGRAM'] ?? join(ROOT, 'src/main.ts')
const run = promisify(execFile)

const measured = async (task: Pick<GuestTask, 'mode' | 'work'> & Partial<GuestTask>): Promise<Measured> =>
  JSON.parse(await outputOf(task)) as Measured // what guest.ts prints

async function measuredCell(
  coldStartSeconds: number,
  task: Partial<Pick<GuestTask, 'program' | 'command'>> = {},
): Promise<CellOutcome> {
  const cell = { coldStartSeconds, changeSeconds: 60, changesSeconds: 20, betweenChangesMs: 20, idleSeconds: 1 }
  return JSON.parse(
    await outputOf({ mode: 'ipvs', work: 'cell', cell, virtualAddresses: 'routes', ...task }),
  ) as CellOutcome // what guest.ts prints
}

async function outputOf(task: Pick<GuestTask, 'mode' | 'work'> & Partial<GuestTask>): Promise<string> {
  const whole: GuestTask = {
    program: 'kube-ipvs',
    services: 20,
    endpoints: 2,
    changes: 2,
    idleSeconds: 1,
    virtualAddresses: 'addresses',
    slope: false,
    nodeFlags: NODE_FLAGS,
    command: PROGRAM,
    ...task,
  }
  return guestOutput('guest.ts', whole)
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
  assert.ok((result.coldStartMs ?? 0) > 0)
  assert.ok((result.coldStartCpuMs ?? 0) > 0)
  assert.ok((result.coldStartMinorFaults ?? 0) > 1_000)
  assert.ok((result.coldStartContextSwitches ?? 0) > 0)
  assert.ok((result.coldStartProcesses ?? 0) > 0)
  // Twenty Services with as many EndpointSlices, in protobuf.
  assert.ok((result.coldStartApiBytes ?? 0) > 20_000, String(result.coldStartApiBytes))
}

async function measuredTraffic(mode: Mode): Promise<TrafficMeasured> {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-traffic-test-'))
  try {
    const compiled = await compile(join(ROOT, 'dev/bench/traffic.c'), folder)
    assert.ok('program' in compiled, JSON.stringify(compiled))
    const traffic = { program: compiled.program, requests: 20, connections: 40, clients: 2 }
    return JSON.parse(await outputOf({ mode, work: 'traffic', traffic })) as TrafficMeasured // what guest.ts prints
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
      nodeFlags: NODE_FLAGS,
      command: PROGRAM,
      traffic: compiled.program,
    }
    return JSON.parse(await guestOutput('handover-guest.ts', task)) as HandoverMeasured // what handover-guest.ts prints
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function assertTraffic(result: TrafficMeasured): void {
  assert.equal(result.changes, 2)
  assert.ok((result.latencyP50Us ?? 0) > 0)
  assert.ok((result.latencyP99Us ?? 0) >= (result.latencyP50Us ?? 0))
  assert.ok((result.connectionsPerSecond ?? 0) > 0)
  assert.ok((result.changeP50Ms ?? 0) > 0)
}

describe('the bench in its guest', { concurrency: true }, () => {
  it('times a cold start in ipvs mode and counts its cost', async () => {
    const result = await measured({ mode: 'ipvs', work: 'repeated' })
    assertColdStart(result)
    assert.equal(result.changes, 2)
    assert.ok((result.apiBytesPerChange ?? 0) > 500)
  })

  it('times a cold start in iptables mode', needs('iptables-nft'), async () =>
    assertColdStart(await measured({ mode: 'iptables', work: 'cold' })),
  )

  it('sends traffic through the ClusterIP in the middle in ipvs mode', needs('program:gcc'), async () => {
    const result = await measuredTraffic('ipvs')
    assertTraffic(result)
    assert.equal(result.rulesBefore, null)
  })

  it(
    'sends traffic through the ClusterIP in the middle in iptables mode',
    needs('iptables-nft', 'program:gcc'),
    async () => {
      const result = await measuredTraffic('iptables')
      assertTraffic(result)
      assert.ok((result.rulesBefore ?? -1) >= 0 && (result.rulesBefore ?? 20) < 20)
    },
  )

  for (const mode of ['ipvs', 'iptables'] as const)
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

  it('measures a cell: cold start, rest and changes with local routes', async () => {
    const outcome = await measuredCell(300)
    assert.ok('measured' in outcome, JSON.stringify(outcome))
    const { coldStartMs, changes, changeP50Ms, changeP99Ms, idleCpuPercent, rssMiB } = outcome.measured
    for (const figure of [coldStartMs, changeP50Ms, changeP99Ms, rssMiB])
      assert.ok(typeof figure === 'number' && figure > 0, JSON.stringify(outcome))
    assert.equal(changes, 2)
    assert.ok((idleCpuPercent ?? -1) >= 0)
  })

  it('ends a cell at the limit of the cold start, and says so', async () => {
    const outcome = await measuredCell(0.02)
    assert.ok('measured' in outcome, JSON.stringify(outcome))
    assert.deepEqual(outcome.measured.coldStartMs, { moreThan: 20 })
    assert.deepEqual([outcome.measured.changeP50Ms, outcome.measured.rssMiB, outcome.measured.changes], [null, null, 0])
  })

  it('reports a program that ends instead of writing its table', async () => {
    const outcome = await measuredCell(60, { program: 'other', command: 'sh -c "echo no such mode; exit 3"' })
    assert.ok('failure' in outcome && /the program ended:\nno such mode/.test(outcome.failure), JSON.stringify(outcome))
  })

  it('counts the system calls of a start and of a change', needs('program:strace'), async () => {
    const result = await measured({ mode: 'ipvs', work: 'counted' })
    assert.ok((result.coldStartSystemCalls ?? 0) > 1_000, JSON.stringify(result))
    assert.ok((result.systemCallsPerChange ?? 0) > 0, JSON.stringify(result))
    // The endpoint is added and the one before gets weight 0; then its connections are asked for, and it is removed.
    assert.equal(result.messagesPerChange, 4)
    assert.ok((result.coldStartMessages ?? 0) >= 3 * 20, JSON.stringify(result))
  })

  it('times single changes beside nothing and beside a burst by what the program publishes', async () => {
    const { fairness, eventLoopMaxMs } = await measured({ mode: 'ipvs', work: 'whole', burstWithProbe: true })
    assert.deepEqual(
      fairness?.map(({ beside }) => beside),
      ['nothing', 'burst'],
    )
    for (const { beside, changes, arrivalP50Ms, writeP50Ms, eventLoopMaxMs: heldMs } of fairness ?? []) {
      assert.ok(beside === 'burst' || changes > 100, String(changes))
      if (changes === 0) continue
      assert.ok(arrivalP50Ms !== null && writeP50Ms !== null && arrivalP50Ms > 0 && writeP50Ms >= arrivalP50Ms)
      assert.ok((heldMs ?? 0) > 0)
    }
    assert.ok((fairness?.[1]?.workMs ?? 0) > 0)
    assert.ok((eventLoopMaxMs ?? 0) > 0)
  })
})

describe('IptablesTable', needs('iptables-nft'), () => {
  // The first 16 letters of base32 of the SHA-256 of 'bench-0/service-0:httptcp', and of that with the endpoint at its end.
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

describe('NftablesTable', needs('nft'), () => {
  // The first 8 letters of base32 of the SHA-256 of 'bench-0/service-0/tcp/http'. kube-proxy 1.36.3 writes these rules.
  const SERVICE = 'service-CHHDSWVX-bench-0/service-0/tcp/http'
  const expected: Expected = {
    port: 'bench-0/service-0:http',
    address: '10.96.0.10',
    endpoints: new Set(['10.128.0.0:8080', '10.128.0.1:8080']),
  }

  it('finds a Service port when its chain leads to exactly its endpoints and the map of Services leads to it', async () => {
    const table = new NftablesTable()
    const add = (rules: string): Buffer =>
      execFileSync('nft', ['-f', '-'], { input: `table ip kube-proxy {\n${rules}\n}\n` })
    try {
      assert.deepEqual(await table.missing([expected]), [expected])
      add(`map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
chain ${SERVICE} { meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 10.128.0.0 . 8080, 1 : 10.128.0.1 . 8080 }; }`)
      assert.equal(await table.isThere(expected), true)
      assert.equal(await table.hasEndpoint(expected, '10.128.0.1:8080'), true)
      assert.equal(await table.hasEndpoint(expected, '10.128.0.2:8080'), false)
      assert.deepEqual(await table.missing([expected]), [expected])
      add(
        `map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; elements = { 10.96.0.10 . tcp . 80 : goto ${SERVICE} } }`,
      )
      assert.deepEqual(await table.missing([expected]), [])
      assert.equal(await table.isThere({ ...expected, endpoints: new Set(['10.128.0.0:8080']) }), false)
    } finally {
      table.close()
    }
  })
})
