/**
 * The same packets into worlds that differ in their firewall alone: who answers or refuses, the
 * source that the endpoint sees, marks and conntrack are equal. Rules of one firewall that are
 * missing for a while must be noticed, or the oracle proves nothing. Its long form is `npm run
 * test:packets`.
 */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { seedOf } from '../../dev/testing/seed.ts'
import { readDifferences } from '../packets/differences.ts'
import { type Difference, formatDifferences } from '../packets/judge.ts'
import { inWorlds, judgeMutants, packetsFor, runTrial, trialsOf } from '../packets/run.ts'
import { EVERY_RULE } from '../packets/scenario.ts'
import { Summary } from '../packets/summary.ts'
import { rowsOfRun } from '../support/extent.ts'
import { FIREWALLS, IPTABLES_LEGACY, IPTABLES_NFT } from '../support/firewalls.ts'
import { isMet, needs } from './needs.ts'

const SEED = seedOf(process.env, false) ?? 1
const QUICK_TRIALS = 1
const TRIALS = 4
const SERVICES = 6
const PACKETS_EACH = 200

const [FIRST, ...OTHERS] = FIREWALLS

describe(
  'packets into worlds that differ in their firewall alone',
  needs('nft', 'iptables-nft', 'legacy-iptables'),
  () => {
    const summary = new Summary()
    const allowed = readDifferences()
    const trials = trialsOf(SEED, TRIALS, SERVICES, PACKETS_EACH)
    const numbers = rowsOfRun([...trials.keys()], (index) => index < QUICK_TRIALS)
    after(() => {
      console.log(summary.table.join('\n'))
    })

    for (const number of numbers)
      it(`meet the same in generated scenario ${number}`, async () => {
        const trial = trials[number]
        assert.ok(trial !== undefined)
        const firewalls = [FIRST, ...OTHERS.filter(({ need }) => isMet(need))] as const
        const result = await runTrial(firewalls, trial, allowed, new Set())
        assert.equal(result.reference.length, PACKETS_EACH)
        summary.add(result.reference, result.forbidden)
        const text = formatDifferences(result.forbidden, trial.scenario, FIRST.name).join('\n')
        assert.equal(result.forbidden.length, 0, `seed ${SEED}\n${text}`)
      })

    it('have every kind of end', () => {
      for (const outcome of ['own', 'masqueraded', 'refused', 'dropped'] as const)
        assert.ok(summary.total(outcome) > 10, `${outcome}\n${summary.table.join('\n')}`)
    })
  },
)

/** What is missing, how that must show, and to whom. */
const MUTANTS: readonly (readonly [name: RegExp, aspect: Difference['aspect'], kind: RegExp])[] = [
  [/^iptables.* -A KUBE-POSTROUTING .*KUBE-LOOP-BACK/, 'source', /^(ClusterIP|ExternalIP|LoadBalancer|NodePort)$/],
  [/^iptables.* -A KUBE-POSTROUTING .*--set-xmark/, 'mark', /^(ClusterIP|ExternalIP|LoadBalancer|NodePort.*)$/],
  [/^iptables.* -A KUBE-IPVS-FILTER .*REJECT/, 'verdict', /^(other port|NodePort at a VIP|ping|missing)$/],
  [/^the entries of KUBE-LOAD-BALANCER-SOURCE-CIDR$/, 'verdict', /^LoadBalancer$/],
]

describe('the packet oracle', needs('nft', 'iptables-nft', 'legacy-iptables'), () => {
  it('notices each rule and set that is missing, and nothing once it is back', async () => {
    const packets = packetsFor(EVERY_RULE, SEED, 250, ({ family }) => family === 'IPv4')
    const found = new Map<string, readonly Difference[]>()
    const left = await inWorlds([IPTABLES_NFT, IPTABLES_LEGACY], EVERY_RULE, async ([reference, mutated]) => {
      assert.ok(mutated !== undefined)
      const isWanted = ({ name }: { readonly name: string }): boolean => MUTANTS.some(([pattern]) => pattern.test(name))
      return judgeMutants([reference, mutated], packets, isWanted, ({ name }, differences) =>
        found.set(name, differences),
      )
    })
    assert.equal(found.size, MUTANTS.length, [...found.keys()].join('\n'))
    for (const [pattern, aspect, kind] of MUTANTS) {
      const [name = '', differences = []] = [...found].find(([one]) => pattern.test(one)) ?? []
      const shown = differences.filter((one) => one.aspect === aspect)
      assert.ok(shown.length > 0, `${name} shows in no ${aspect}`)
      const text = formatDifferences(shown, EVERY_RULE, IPTABLES_NFT.name).join('\n')
      for (const { packet } of shown) assert.match(packet.kind, kind, `${name}\n${text}`)
      assert.match(text, new RegExp(`^  ${aspect} with iptables-legacy: `, 'm'), name)
    }
    assert.deepEqual(formatDifferences(left, EVERY_RULE, IPTABLES_NFT.name).slice(0, -1), [])
  })
})
