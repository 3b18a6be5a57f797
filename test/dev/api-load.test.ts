/** The part `api-load` of the evidence: its figures, what counts as a problem, and one small run. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { excess, type Figures, figuresOf, mostWithin, type Seen } from '../../dev/evidence/api-load/figures.ts'
import { type Plan, resultOf, type Run, runProblems } from '../../dev/evidence/api-load/plan.ts'
import { projectFolder } from '../../dev/progress.mjs'

const seen = (verb: string, query: string, atMs: number): Seen => ({
  kind: 'services',
  verb,
  query: new URLSearchParams(query),
  atMs,
})

function figures(perNode: Partial<Figures['perNode']>, more: Partial<Figures> = {}): Figures {
  const none = { streamingLists: 0, lists: 0, nextPages: 0, watches: 0, bytes: 0 }
  const rest = { seconds: 1, peakInOneSecond: 0, peakInTenSeconds: 0, lastRequestSecond: 0 }
  return { ...rest, perNode: { ...none, ...perNode }, ...more }
}

const PLAN: Plan = {
  program: 'kube-ipvs',
  nodes: 100,
  services: 1,
  endpointsEach: 1,
  steps: 1,
  steadySeconds: 1,
  outageSeconds: 600,
  compactionSeconds: 0.2,
}

describe('the figures of a phase', () => {
  it('tell lists, pages and watches apart, for each node, and leave other requests out', () => {
    const requests = [
      seen('watch', 'watch=true&sendInitialEvents=true', 1000),
      seen('watch', 'watch=true&resourceVersion=7', 1500),
      seen('watch', 'watch=true&resourceVersion=7', 2100),
      seen('list', 'limit=500', 1200),
      seen('list', 'limit=500&continue=abc', 1300),
      { ...seen('list', '', 1400), kind: undefined },
      seen('create', '', 1400),
    ]
    assert.deepEqual(figuresOf({ startMs: 1000, endMs: 4000, nodes: 2, requests, bytes: 3001 }), {
      seconds: 3,
      perNode: { streamingLists: 0.5, lists: 0.5, nextPages: 0.5, watches: 1, bytes: 1501 },
      peakInOneSecond: 4,
      peakInTenSeconds: 5,
      lastRequestSecond: 1.1,
    })
    assert.equal(figuresOf({ startMs: 1, endMs: 2, nodes: 1, requests: [], bytes: 0 }).lastRequestSecond, 0)
  })

  it('find the busiest second wherever it begins', () => {
    assert.equal(mostWithin([], 1000), 0)
    assert.equal(mostWithin([0, 999, 1000, 1001, 1998], 1000), 4)
    assert.equal(mostWithin([5000, 0, 2500], 1000), 1)
  })
})

describe('the problems of a run', () => {
  const problems = (phases: Run['phases'], plan = PLAN) => runProblems({ plan, phases })

  it('are lists where watches should have continued, and lists that are missing', () => {
    assert.deepEqual(
      problems({
        start: figures({ streamingLists: 3 }),
        steady: figures({ watches: 2 }),
        outage: figures({ watches: 3 }),
        expired: figures({ streamingLists: 3 }),
        expiredPaged: figures({ streamingLists: 3, lists: 3, nextPages: 4 }),
      }),
      [],
    )
    assert.deepEqual(problems({ start: figures({ lists: 2 }), cut: figures({ streamingLists: 0.01 }) }), [
      'start: 2 lists of a node, not 3',
      'cut: 0.01 lists of a node, not 0',
    ])
  })

  it('are watches that come back together after a long outage', () => {
    const phases = { outage: figures({ watches: 3 }, { peakInTenSeconds: 121 }) }
    assert.deepEqual(problems(phases), ['outage: 121 of 300 watches came back within ten seconds'])
    assert.deepEqual(problems(phases, { ...PLAN, outageSeconds: 60 }), [])
    assert.deepEqual(problems({ outage: figures({ watches: 3 }, { peakInTenSeconds: 120 }) }), [])
  })
})

describe('the comparison with kube-proxy', () => {
  it('names each figure of ours that is larger by more than chance', () => {
    const ours = {
      steady: figures({ watches: 3.5, bytes: 1151 }),
      cut: figures({ streamingLists: 1, watches: 3 }, { peakInTenSeconds: 16 }),
      other: figures({ lists: 9 }),
    }
    const theirs = {
      steady: figures({ watches: 3.5, bytes: 1000 }),
      cut: figures({ watches: 4 }, { peakInTenSeconds: 10 }),
    }
    assert.deepEqual(excess(ours, theirs), [
      'steady: 1151 bytes of a node, kube-proxy 1000',
      'cut: 1 lists of a node, kube-proxy 0',
      'cut: 16 requests within ten seconds, kube-proxy 10',
    ])
    assert.deepEqual(excess(theirs, theirs), [])
  })

  it('is of the two last runs, and a run of kube-proxy has no problems of its own', () => {
    const run = (program: Plan['program'], bytes: number, problems: readonly string[]): Run => ({
      plan: { ...PLAN, program },
      phases: { steady: figures({ watches: 1, bytes }) },
      watchesPerNode: 3,
      connectionsPerNode: 1,
      problems,
    })
    const runs = [run('kube-ipvs', 9, ['first']), run('kube-ipvs', 3, []), run('kube-proxy', 2, ['theirs'])]
    const result = resultOf(runs, ['none'])
    assert.deepEqual(result.problems, ['first', 'steady: 3 bytes of a node, kube-proxy 2'])
    assert.deepEqual(result['100 nodes with kube-proxy and 1 endpoints'], {
      steady:
        '0 lists, 0 further pages, 1 watches and 2 bytes of a node in 1 s; at most 0 requests in one second, 0 in ten',
    })
  })
})

it('a small run has no problem: watches continue without a list, and no change is missed', () => {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-api-load-'))
  try {
    const plan: Plan = {
      ...PLAN,
      nodes: 3,
      services: 4,
      endpointsEach: 5,
      steps: 2,
      steadySeconds: 0,
      outageSeconds: 0,
    }
    const args = ['dev/evidence/api-load/main.ts', JSON.stringify(plan), folder]
    const { status, stderr } = spawnSync(process.execPath, args, { cwd: projectFolder, encoding: 'utf8' })
    assert.equal(status, 0, stderr)
    const run = JSON.parse(readFileSync(join(folder, 'run.json'), 'utf8')) as Run // written by main.ts
    assert.deepEqual(run.problems, [])
    assert.deepEqual([run.watchesPerNode, run.connectionsPerNode], [3, 1])
    assert.deepEqual(Object.keys(run.phases), ['start', 'rolling', 'cut', 'expired', 'expiredPaged'])
    assert.ok((run.phases['rolling']?.perNode.bytes ?? 0) > 1000)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
