/**
 * All tables for commands that explain them: what iptables prints wrongly, what it does not print,
 * and tables that change meanwhile.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { NftRule } from '../../src/nftables/rule.ts'
import { type AllRules, readAllRules } from '../../src/iptables/read-all-rules.ts'
import type { NftAccess } from '../../src/iptables/types.ts'
import { CodedError } from '../../src/values/errors.ts'

const signal = new AbortController().signal
const DROP: NftRule = {
  table: 'filter',
  chain: 'INPUT',
  handle: 7n,
  verdict: { kind: 'drop', chain: '' },
  isExact: true,
  isPlain: true,
  hasOtherEffect: false,
  matches: [],
  comment: '',
}
const JUMP: NftRule = {
  ...DROP,
  handle: 5n,
  verdict: { kind: 'jump', chain: 'KUBE-X' },
  matches: ['comment'],
  comment: 'x',
}
const FOREIGN: NftRule = { ...DROP, isExact: false, isPlain: false }
const NAT = '*nat\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -j MASQUERADE\nCOMMIT\n'
const filter = (...rules: readonly string[]): string =>
  `*filter\n:INPUT DROP [0:0]\n:KUBE-X - [0:0]\n${rules.map((rule) => `${rule}\n`).join('')}COMMIT\n`
const HIDDEN = "# Table `filter' is incompatible, use 'nft' tool.\n"

interface Kernel {
  /** What each save prints; undefined: it fails. */
  readonly saves: readonly (string | undefined)[]
  readonly rules: readonly NftRule[]
  readonly shown?: string
}

async function read({ saves, rules, shown }: Kernel): Promise<AllRules & { readonly prints: number }> {
  let prints = 0
  const save = async (): Promise<string> => {
    const text = saves[Math.min(prints++, saves.length - 1)]
    if (text === undefined) throw new CodedError('iptables-save-failed', 'no')
    return text
  }
  const nft: NftAccess = {
    saveTable: async (_family, table) => {
      const text = await save()
      return text.includes(`*${table}`) ? text : ''
    },
    showChains: async () => {
      if (shown === undefined) throw new CodedError('iptables-save-failed', 'no')
      return shown
    },
    chains: async (_family, table) =>
      table === 'filter'
        ? [
            { name: 'INPUT', isBase: true, policy: 'drop' },
            { name: 'KUBE-X', isBase: false, policy: 'accept' },
          ]
        : [],
    rules: async ({ table, chain }) => rules.filter((rule) => rule.table === table && rule.chain === chain),
    visitRules: async ({ table }, visit, onRestart) => {
      visit(FOREIGN)
      onRestart()
      for (const rule of rules) if (rule.table === table) visit(rule)
    },
    deleteRules: async () => assert.fail(),
  }
  return { ...(await readAllRules('IPv4', { save }, nft, signal)), prints }
}

const input = ({ tables }: AllRules): readonly string[] | undefined => tables.get('filter')?.get('INPUT')?.rules

describe('readAllRules', () => {
  it('takes what iptables prints where it prints everything, with one process', async () => {
    const all = await read({ saves: [NAT + filter('-A INPUT -j DROP')], rules: [DROP] })
    assert.deepEqual([input(all), all.prints, all.foreign.length, all.unprinted], [['-j DROP'], 1, 0, []])
    assert.equal(all.tables.get('filter')?.get('INPUT')?.policy, 'DROP')
    assert.deepEqual(all.tables.get('nat')?.get('POSTROUTING')?.rules, ['-j MASQUERADE'])
  })

  it('replaces a rule that iptables prints without its conditions', async () => {
    const saved = NAT + filter('-A INPUT -m comment --comment x -j KUBE-X', '-A INPUT -j DROP')
    const all = await read({ saves: [saved], rules: [JUMP, FOREIGN] })
    assert.deepEqual(input(all), ['-m comment --comment x -j KUBE-X', '-m nft --handle 7 -j DROP'])
    assert.deepEqual(
      all.foreign.map(({ handle }) => handle),
      [7n],
    )
  })

  it('says that the effect is not known where it is not', async () => {
    const rule = { ...FOREIGN, verdict: undefined, hasOtherEffect: true }
    const all = await read({ saves: [filter('-A INPUT -p udp')], rules: [rule] })
    assert.deepEqual(input(all), ['-m nft --handle 7 -j NFT'])
  })

  it('reads a table again that changed while it was read', async () => {
    const before = NAT + filter('-A INPUT -j DROP')
    const after = filter('-A INPUT -m comment --comment x -j KUBE-X', '-A INPUT -j DROP')
    const all = await read({ saves: [before, after], rules: [JUMP, FOREIGN] })
    assert.deepEqual([input(all)?.at(-1), all.prints], ['-m nft --handle 7 -j DROP', 2])
    const never = await read({ saves: [before], rules: [JUMP, FOREIGN] })
    assert.equal(never.prints, 4)
  })

  for (const saves of [[HIDDEN + NAT], [undefined, NAT, NAT, NAT, undefined]])
    it(`reads the chains of a table that ${saves.length === 1 ? 'is named as not printable' : 'cannot be printed'}`, async () => {
      const shown = '-N KUBE-X\n-A KUBE-X -p tcp -j DROP\n'
      const all = await read({ saves, rules: [JUMP, FOREIGN], shown })
      assert.deepEqual(input(all), ['-m comment --comment x -j KUBE-X', '-m nft --handle 7 -j DROP'])
      const chains = all.tables.get('filter')
      assert.deepEqual(chains?.get('KUBE-X'), { name: 'KUBE-X', rules: ['-p tcp -j DROP'], policy: undefined })
      assert.equal(chains?.get('INPUT')?.policy, 'DROP')
      assert.deepEqual(all.unprinted, ['filter'])
      assert.equal(all.tables.get('nat')?.size, 1)
      const without = await read({ saves, rules: [JUMP, FOREIGN] })
      assert.deepEqual(without.tables.get('filter')?.get('KUBE-X')?.rules, [])
    })

  it('takes the text alone in the legacy back end', async () => {
    const { tables } = await readAllRules('IPv4', { save: async () => NAT }, undefined, signal)
    assert.equal(tables.size, 1)
    const failing = { save: async () => Promise.reject(new CodedError('iptables-save-failed', 'no')) }
    await assert.rejects(readAllRules('IPv4', failing, undefined, signal), { code: 'iptables-save-failed' })
  })
})
