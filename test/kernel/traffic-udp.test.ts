/**
 * Clients that keep their UDP port, at each kind of frontend: a client whose endpoint may no longer
 * answer is answered by another one at once, whatever the change was, and the other clients keep
 * their endpoints. A flow is renewed by every datagram, so a client that continues to send would
 * otherwise be lost.
 */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import { firewallOfRun } from '../../dev/testing/firewalls.ts'
import { Cluster, type From, type Outcome } from '../support/cluster.ts'
import type { Workbench } from '../support/daemon.ts'
import { kubeLines, rulesText } from '../support/kernel-state.ts'
import type { Manifest } from '../support/manifests.ts'
import { eventually } from '../support/deadline.ts'
import {
  bothFamilies,
  everyKind,
  FAMILIES,
  frontend,
  KINDS,
  settled,
  VIRTUAL_ADDRESSES,
  type VirtualAddresses,
} from '../support/every-kind.ts'

/** The changes of a Service with the endpoints a and c, and the pod that answers afterwards. */
const ROWS: readonly [what: string, change: readonly Manifest[], left: 'a' | 'b' | 'c'][] = [
  ['an endpoint is removed', everyKind(1, ['c']), 'c'],
  ['the endpoint on the other node is removed', everyKind(1, ['a']), 'a'],
  ['all endpoints are replaced', everyKind(1, ['b']), 'b'],
  [
    'policies become Local',
    everyKind(1, ['a', 'c'], { internalTrafficPolicy: 'Local', externalTrafficPolicy: 'Local' }),
    'a',
  ],
]
const PORTS = [0, 1, 2, 3]
const FROM: readonly From[] = ['client', 'b']

/**
 * With routes the changes that end flows by an address and by a policy are enough: what removes
 * flows does not know the way.
 */
const ROWS_OF: Readonly<Record<VirtualAddresses, typeof ROWS>> = {
  addresses: ROWS,
  routes: ROWS.filter(([, , left]) => left === 'a'),
}

for (const [virtualAddresses, rows] of VIRTUAL_ADDRESSES.map((way) => [way, ROWS_OF[way]] as const))
  describe(`a UDP client that keeps its port, virtual IPs as ${virtualAddresses}`, () => {
    let cluster: Cluster
    let bench: Workbench
    before(() => {
      cluster = Cluster.start()
      bench = bothFamilies({}, undefined, virtualAddresses)
      bench.write('web.yaml', ...everyKind(1, ['a', 'c']))
      bench.start()
    })
    beforeEach(async () => {
      bench.write('web.yaml', ...everyKind(1, ['a', 'c']))
      await settled(1, 2, virtualAddresses)
      await eventually(isMasqueraded)
    })
    after(async () => {
      await bench.close()
      cluster.stop()
    })

    /** Each client sends one request, all at the same time: outcomes in a fixed order. */
    const askAll = (firstPort: number, withinMs: number): Promise<Outcome[]> =>
      Promise.all(
        FROM.flatMap((from) =>
          KINDS.flatMap((kind, index) =>
            FAMILIES.flatMap((family) =>
              PORTS.map((port) =>
                cluster.ask(from, frontend(1, kind, family, 'udp'), { port: firstPort + 10 * index + port, withinMs }),
              ),
            ),
          ),
        ),
      )

    for (const [index, [what, change, left]] of rows.entries())
      it(`is answered at once when ${what}`, async () => {
        // The kernel remembers the flows of the other way.
        const firstPort = (virtualAddresses === 'routes' ? 22_000 : 20_000) + 100 * index
        const before = await askAll(firstPort, 5000)
        assert.deepEqual(podsOf(before), ['a', 'c'])
        assert.deepEqual(await askAll(firstPort, 5000), before)
        bench.write('web.yaml', ...change)
        await eventually(async () => assert.deepEqual(podsOf(await askAll(firstPort, 200)), [left]), 3000)
        const after = await askAll(firstPort, 5000)
        for (const [index, outcome] of before.entries())
          if (outcome.startsWith(left)) assert.equal(after[index], outcome, 'who need not move stays')
      })
  })

/**
 * New flows are masqueraded: a flow that begins before that is answered past the node, as long as
 * it lasts. The policy Local of an earlier test, also of another daemon, goes from the kernel in
 * two steps: entries first, then the rules of sets that have become empty or have their first
 * entry.
 */
function isMasqueraded(): void {
  if (firewallOfRun() !== undefined) return hasElementsToMark()
  const entries = kubeLines('ipset save').flatMap((line) => /^add (\S+)/.exec(line)?.[1] ?? [])
  assert.deepEqual(
    entries.filter((set) => set.includes('-LOCAL')),
    [],
  )
  const rules = ['iptables-save', 'ip6tables-save'].flatMap((program) => kubeLines(program))
  for (const set of new Set(entries.filter((name) => /EXTERNAL-IP|LOAD-BALANCER|NODE-PORT|CLUSTER-IP/.test(name))))
    assert.ok(
      rules.some((rule) => rule.startsWith('-A ') && rule.includes(` --match-set ${set} `)),
      `no rule for ${set}`,
    )
}

/** The same of the private table of nf_tables, where a set has its rule from the start. */
function hasElementsToMark(): void {
  const tables = ['ip', 'ip6'].map((family) => rulesText(`nft list table ${family} kube-ipvs`)).join('\n')
  const filled = [...tables.matchAll(/\tset (\S+) \{[^}]*elements = \{/g)].map(([, set]) => set)
  assert.deepEqual(
    filled.filter((set) => set?.endsWith('-local')),
    [],
  )
  for (const set of ['cluster-ips', 'external-ips', 'node-ports'])
    assert.equal(filled.filter((one) => one === set).length, FAMILIES.length, set)
}

const podsOf = (outcomes: readonly Outcome[]): string[] =>
  [...new Set(outcomes.map((outcome) => outcome.split(' ')[0] ?? ''))].sort()
