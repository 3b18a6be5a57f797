/** Which modes doctor knows of where it cannot read rules, or virtual IPs. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultConfiguration } from '../support/configuration.ts'
import { readRules } from '../../src/doctor/read-kernel.ts'
import { checkNode } from '../../src/modes/ipvs/node-preparation.ts'
import { summarizeRules } from '../../src/doctor/rules-summary.ts'
import { CLEANUP_LAYOUT } from '../../src/modes/leftovers/layouts.ts'
import type { VirtualIpsSeen } from '../../src/modes/look/look.ts'
import type { IptablesChoice } from '../../src/node/iptables-choice.ts'
import { HostIptables } from '../../src/node/iptables-programs.ts'
import { CodedError } from '../../src/values/errors.ts'

const REFUSED = { unseen: 'xtables lock' }
const refuse = async () => Promise.reject(new CodedError('iptables-missing-for-test', REFUSED.unseen))
const CHOICE: IptablesChoice = {
  mode: 'nft',
  reason: 'of a test',
  unusable: {},
  suffix: '',
  programs: {},
  version: '1.8.9',
  randomFully: true,
  waits: true,
}
const NONE: VirtualIpsSeen = { device: undefined, routes: new Map(), privateTables: [] }
const DEVICE: VirtualIpsSeen = {
  ...NONE,
  device: { index: 7, name: 'kube-ipvs0', kind: 'dummy', flags: 0 } as NonNullable<VirtualIpsSeen['device']>, // nobody reads more
}

/** No back end can be chosen, or one is chosen and its rules cannot be read. */
const FAILURES = {
  'no back end': { iptables: refuse, otherIptables: refuse },
  'no rules': { iptables: async () => new HostIptables(CHOICE), otherIptables: refuse },
}

for (const [name, failing] of Object.entries(FAILURES))
  test(`readRules finds ipvs mode by its virtual IPs with ${name}, and says unknown without them`, async () => {
    const read = async (virtualIps: () => Promise<VirtualIpsSeen>) => {
      const look = { families: ['IPv4'] as const, ...failing, virtualIps }
      const { rules, modesInKernel } = await readRules(look, defaultConfiguration('ipvs'), AbortSignal.timeout(20_000))
      assert.deepEqual(rules, REFUSED)
      return modesInKernel
    }
    assert.deepEqual(await read(async () => DEVICE), { value: ['ipvs'] })
    assert.deepEqual(await read(async () => NONE), REFUSED)
    assert.deepEqual(await read(refuse), REFUSED)
  })

test('readRules finds iptables mode by its rules where virtual IPs cannot be read', async () => {
  const output = '*filter\n:KUBE-EXTERNAL-SERVICES - [0:0]\nCOMMIT\n'
  const programs = { IPv4: { save: '/iptables-legacy-save', restore: '/iptables-legacy-restore' } }
  const run = async () => ({ exitCode: 0, output, errorText: '' })
  const look = {
    families: ['IPv4'] as const,
    iptables: async () => new HostIptables({ ...CHOICE, mode: 'legacy', programs }, run),
    otherIptables: async () => undefined,
    virtualIps: refuse,
  }
  const { modesInKernel } = await readRules(look, defaultConfiguration('ipvs'), AbortSignal.timeout(20_000))
  assert.deepEqual(modesInKernel, { value: ['iptables'] })
})

test('readRules asks the kernel for what the firewall of the daemon that runs needs', async () => {
  const configuration = defaultConfiguration('ipvs')
  const look = { families: ['IPv4'] as const, ...FAILURES['no back end'], virtualIps: refuse }
  const signal = AbortSignal.timeout(60_000)
  for (const firewall of ['iptables', 'nftables'] as const) {
    const { findings } = await checkNode({ configuration, firewall, signal })
    const { lacks } = await readRules(look, configuration, signal, firewall)
    assert.deepEqual(lacks, { value: findings }, firewall)
  }
})

test('summarizeRules says whether forwarded packets are accepted by the state of their connection alone', () => {
  const JUMP = '-m comment --comment "a -j b" -j '
  const summary = (chain: string, rule: string): boolean => {
    const jumps: readonly [from: string, to: string][] = [
      ['FORWARD', 'ufw-before-forward'],
      ['FORWARD', 'KUBE-FORWARD'],
      ['INPUT', 'ufw-before-input'],
    ]
    const chains = new Set([chain, ...jumps.map(([from]) => from)])
    const rulesOf = (name: string): string[] => [
      ...jumps.filter(([from]) => from === name).map(([, to]) => `${JUMP}${to}`),
      ...(name === chain ? [rule] : []),
    ]
    const filter = new Map(Array.from(chains, (name) => [name, { name, policy: undefined, rules: rulesOf(name) }]))
    return summarizeRules(new Map([['filter', filter]]), 'legacy', 'IPv4', CLEANUP_LAYOUT).acceptsAnswers
  }
  const accepts = '-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'
  const rows: readonly (readonly [chain: string, rule: string, expected: boolean])[] = [
    ['FORWARD', accepts, true],
    ['ufw-before-forward', '-m conntrack --ctstate ESTABLISHED -m comment --comment "of \\"ufw\\"" -j ACCEPT', true],
    ['FORWARD', '-m comment --comment answers -m state --state ESTABLISHED,RELATED -j ACCEPT', true],
    ['INPUT', accepts, false],
    ['OUTPUT', accepts, false],
    ['ufw-before-input', accepts, false],
    ['unused', accepts, false],
    // Of a proxy: the daemon removes it.
    ['KUBE-FORWARD', accepts, false],
    ['FORWARD', `-o docker0 ${accepts}`, false],
    ['FORWARD', '-m conntrack --ctstate NEW -j ACCEPT', false],
    ['FORWARD', '-m conntrack --ctstate ESTABLISHED -j DROP', false],
  ]
  for (const [chain, rule, expected] of rows) assert.equal(summary(chain, rule), expected, `${chain} ${rule}`)
})
