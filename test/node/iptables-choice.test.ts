/**
 * The choice of the back end on made-up hosts: folders with programs, their output, tables of the
 * kernel. Each case also lists the programs that may be started; without legacy tables that is no
 * legacy program.
 */
import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { after, test } from 'node:test'
import { chooseIptables, type IptablesChoice, otherIptables } from '../../src/node/iptables-choice.ts'
import type { ProgramCall, ProgramResult } from '../../src/node/programs.ts'
import { CodedError } from '../../src/values/errors.ts'
import type { IpFamily, UnusableFamilies } from '../../src/values/protocol.ts'

const root = mkdtempSync(`${tmpdir()}/iptables-`)
after(() => rmSync(root, { recursive: true }))
const signal = new AbortController().signal
let hosts = 0

interface Host {
  /** Target of the link plain `iptables`: xtables-nft-multi …; undefined: plain iptables is not installed. */
  readonly plain?: string
  readonly modes?: readonly ('nft' | 'legacy')[]
  readonly version?: string
  /** Tables that the kernel has in legacy. */
  readonly legacyTables?: readonly string[]
  /** What the kernel lacks for nft, in both families or in these. */
  readonly lacks?: string | UnusableFamilies
  /** IP families for which the kernel has no legacy tables. */
  readonly withoutLegacy?: readonly IpFamily[]
  /** IP families without programs. */
  readonly withoutPrograms?: readonly IpFamily[]
  /** Without CAP_NET_RAW. Default false. */
  readonly withoutRawSockets?: true
  /** `iptables --version` is killed, and the kernel does not say what it lacks for nft. */
  readonly answersNothing?: true
  /** Output of the -save programs by name and arguments; a program that is not listed fails. */
  readonly saves?: Readonly<Record<string, string>>
}

interface Chosen {
  readonly choice: IptablesChoice
  /** Names of the programs that were started. */
  readonly started: readonly string[]
  /** Modules that the kernel was asked for. */
  readonly modules: readonly string[]
  /** The back end that was not chosen, where it may hold rules. */
  readonly other: IptablesChoice | undefined
}

async function choose(host: Host): Promise<Chosen> {
  const folder = `${root}/${hosts++}`
  const procNet = `${folder}/net`
  mkdirSync(procNet, { recursive: true })
  const tables = (host.legacyTables ?? []).map((name) => `${name}\n`).join('')
  for (const [family, name] of [
    ['IPv4', 'ip_tables_names'],
    ['IPv6', 'ip6_tables_names'],
  ] as const)
    if (!host.withoutLegacy?.includes(family)) writeFileSync(`${procNet}/${name}`, family === 'IPv4' ? tables : '')
  const stems = (['iptables', 'ip6tables'] as const).filter(
    (stem) => !host.withoutPrograms?.includes(stem === 'iptables' ? 'IPv4' : 'IPv6'),
  )
  if (host.plain !== undefined) {
    writeFileSync(`${folder}/${host.plain}`, '')
    chmodSync(`${folder}/${host.plain}`, 0o755)
    for (const stem of stems)
      for (const end of ['', '-save', '-restore']) symlinkSync(host.plain, `${folder}/${stem}${end}`)
  }
  for (const mode of host.modes ?? [])
    for (const stem of stems)
      for (const end of ['save', 'restore']) {
        writeFileSync(`${folder}/${stem}-${mode}-${end}`, '')
        chmodSync(`${folder}/${stem}-${mode}-${end}`, 0o755)
      }
  const started: string[] = []
  const run = async ({ program, args }: ProgramCall): Promise<ProgramResult> => {
    const name = program.split('/').pop() ?? ''
    started.push(name)
    if (host.answersNothing === true) throw new CodedError('program-timeout', 'it was killed')
    if (args[0] === '--version') return { exitCode: 0, output: `${host.version ?? ''}\n`, errorText: '' }
    const output = host.saves?.[[name, ...args].join(' ')]
    return output === undefined ? { exitCode: 1, output: '', errorText: 'no' } : { exitCode: 0, output, errorText: '' }
  }
  const families = ['IPv4', 'IPv6'] as const
  const { lacks = {} } = host
  const missingForNft = async (): Promise<UnusableFamilies> => {
    if (host.answersNothing === true) throw new CodedError('netlink-timeout', 'no answer from the kernel')
    return typeof lacks === 'string' ? { IPv4: lacks, IPv6: lacks } : lacks
  }
  const modules: string[] = []
  const loadModule = (name: string): void => void modules.push(name)
  const mayOpenRawSockets = host.withoutRawSockets !== true
  const options = { families, signal, missingForNft, loadModule, mayOpenRawSockets, folders: [folder], run, procNet }
  const choice = await chooseIptables(options)
  const startedToChoose = [...new Set(started)].sort()
  return { choice, started: startedToChoose, modules, other: await otherIptables(options, choice) }
}

const HINT = '*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n'
const CANARY = '*mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n'
const EMPTY = '*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n'
const RULE = '*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j ACCEPT\nCOMMIT\n'
const both = { modes: ['nft', 'legacy'], plain: 'xtables-nft-multi' } as const

test('otherIptables finds the back end that was not chosen only where it may hold rules', async () => {
  const rows: readonly (readonly [host: Host, chosen: string, other: string | undefined])[] = [
    [{ ...both, legacyTables: ['nat'], saves: { 'iptables-nft-save': HINT } }, 'nft', 'IPv4,IPv6 -legacy'],
    [{ ...both, saves: { 'iptables-nft-save': HINT } }, 'nft', undefined],
    [{ ...both, legacyTables: ['nat'], saves: { 'iptables-legacy-save': HINT } }, 'legacy', 'IPv4,IPv6 '],
    [
      { ...both, legacyTables: ['nat'], saves: { 'iptables-legacy-save': HINT }, lacks: { IPv6: 'no' } },
      'legacy',
      'IPv4 ',
    ],
    [{ ...both, legacyTables: ['nat'], saves: { 'iptables-legacy-save': HINT }, lacks: 'no' }, 'legacy', undefined],
    [{ modes: ['nft'], plain: 'xtables-nft-multi', legacyTables: ['nat'] }, 'nft', undefined],
  ]
  for (const [host, chosen, expected] of rows) {
    const { choice, other } = await choose(host)
    assert.equal(choice.mode, chosen, JSON.stringify(host))
    const found = other && `${Object.keys(other.programs).join()} ${other.suffix}`
    assert.equal(found, expected, JSON.stringify(host))
  }
})

test('chooseIptables chooses the back end that the node uses', async () => {
  const nftSaves = ['ip6tables-nft-save', 'iptables-nft-save']
  const all = ['ip6tables-legacy-save', 'ip6tables-nft-save', 'iptables-legacy-save', 'iptables-nft-save']
  const rows: readonly (readonly [host: Host, mode: string, reason: RegExp, started: readonly string[]])[] = [
    [both, 'nft', /the kernel has no legacy tables, and iptables is xtables-nft-multi/, []],
    [
      { ...both, plain: 'xtables-legacy-multi' },
      'legacy',
      /0 rules in nft, 0 in legacy; iptables is xtables-leg/,
      nftSaves,
    ],
    [
      { ...both, plain: 'xtables-legacy-multi', saves: { 'iptables-nft-save': RULE } },
      'nft',
      /1 rules in nft, 0 in legacy/,
      nftSaves,
    ],
    [
      { ...both, legacyTables: ['filter'], saves: { 'iptables-legacy-save': EMPTY, 'ip6tables-nft-save': HINT } },
      'nft',
      /kubelet has its chains in nft/,
      nftSaves,
    ],
    [
      { ...both, legacyTables: ['mangle'], saves: { 'iptables-legacy-save': CANARY, 'iptables-nft-save': RULE } },
      'legacy',
      /kubelet has its chains in legacy/,
      all,
    ],
    [
      { ...both, legacyTables: ['filter'], saves: { 'iptables-legacy-save': RULE, 'iptables-nft-save': EMPTY } },
      'legacy',
      /0 rules in nft, 1 in legacy/,
      all,
    ],
    [
      { ...both, legacyTables: ['filter'], saves: { 'iptables-legacy-save': RULE, 'iptables-nft-save': RULE } },
      'nft',
      /1 rules in nft, 1 in legacy; iptables is xtables-nft-multi/,
      all,
    ],
    [{ ...both, lacks: { IPv4: 'no nf_tables for IPv4' } }, 'legacy', /^no nf_tables for IPv4$/, []],
    [
      {
        ...both,
        lacks: 'the kernel has no nft_compat',
        legacyTables: ['filter'],
        saves: { 'iptables-nft-save': RULE },
      },
      'legacy',
      /^the kernel has no nft_compat$/,
      all,
    ],
    [{ plain: 'xtables-nft-multi', lacks: 'no nf_tables' }, 'nft', /xtables-nft-multi\), but no nf_tables$/, []],
    // Neither back end has IPv6: the back end in use is chosen.
    [
      { ...both, lacks: { IPv6: 'no nf_tables for IPv6' }, withoutLegacy: ['IPv6'] },
      'nft',
      /, but no nf_tables for IPv6$/,
      [],
    ],
    // The kernel has no legacy tables at all, although plain iptables is legacy.
    [
      { ...both, plain: 'xtables-legacy-multi', withoutLegacy: ['IPv4', 'IPv6'] },
      'nft',
      /^the kernel has no ip_tables$/,
      nftSaves,
    ],
    [
      { modes: ['legacy'] },
      'legacy',
      /only the programs of legacy are installed \(plain iptables is not installed\)/,
      [],
    ],
    [{ plain: 'xtables-nft-multi' }, 'nft', /only the programs of nft/, []],
    [{ plain: 'xtables-multi', version: 'iptables v1.6.1' }, 'legacy', /only the programs of legacy/, ['iptables']],
    [{ plain: 'busy', version: 'iptables v1.8.9 (nf_tables)' }, 'nft', /iptables v1\.8\.9 \(nf_tables\)/, ['iptables']],
  ]
  for (const [host, mode, reason, started] of rows) {
    const found = await choose(host)
    assert.equal(found.choice.mode, mode, JSON.stringify(host))
    assert.match(found.choice.reason, reason)
    assert.deepEqual(found.started, started, JSON.stringify(host))
  }
})

test('chooseIptables finds kubelet in a back end of which some tables cannot be printed', async () => {
  const saves = { 'iptables-nft-save -t mangle': HINT, 'iptables-legacy-save': RULE }
  const { choice } = await choose({ ...both, legacyTables: ['filter'], saves })
  assert.deepEqual([choice.mode, choice.reason], ['nft', 'kubelet has its chains in nft'])
  const counted = {
    'iptables-nft-save -t filter': RULE,
    'ip6tables-nft-save -t nat': RULE,
    'iptables-legacy-save': RULE,
  }
  const more = await choose({ ...both, legacyTables: ['filter'], saves: counted })
  assert.match(more.choice.reason, /2 rules in nft, 1 in legacy/)
})

test('chooseIptables goes on where nothing answers: rules may be written all the same', async () => {
  const answersNothing = true
  const { choice } = await choose({ plain: 'busy', answersNothing })
  assert.deepEqual([choice.mode, choice.unusable], ['nft', {}])
  assert.match(choice.reason, /iptables --version failed: it was killed/)
  assert.equal((await choose({ plain: 'busy', answersNothing, legacyTables: ['nat'] })).choice.mode, 'legacy')
  assert.equal((await choose({ plain: 'xtables-nft-multi', answersNothing })).choice.mode, 'nft')
})

test('chooseIptables returns the programs of the chosen back end', async () => {
  const name = (path: string | undefined): string | undefined => path?.split('/').pop()
  const { choice } = await choose({ ...both, legacyTables: ['filter'], saves: { 'ip6tables-legacy-save': HINT } })
  assert.equal(name(choice.programs.IPv4?.restore), 'iptables-legacy-restore')
  assert.equal(name(choice.programs.IPv6?.save), 'ip6tables-legacy-save')
  const plain = await choose({ plain: 'xtables-nft-multi' })
  assert.deepEqual([choice.suffix, plain.choice.suffix], ['-legacy', ''])
  assert.equal(name(plain.choice.programs.IPv6?.restore), 'ip6tables-restore')
})

test('chooseIptables derives --random-fully and -w from the version', async () => {
  const rows: readonly (readonly [version: string, recent: boolean])[] = [
    ['iptables v1.4.21', false],
    ['iptables v1.6.1', false],
    ['iptables v1.6.2', true],
    ['iptables v1.8.10 (legacy)', true],
    ['iptables v2.0 (legacy)', true],
    ['', false],
  ]
  for (const [version, recent] of rows) {
    const { choice } = await choose({ plain: 'xtables-multi', version })
    assert.deepEqual([choice.randomFully, choice.waits], [recent, recent], version)
  }
  assert.equal((await choose({ plain: 'xtables-legacy-multi' })).choice.randomFully, true)
})

test('chooseIptables reports why the rules of an IP family cannot be written', async () => {
  const no6 =
    /^no ip6tables-save and ip6tables-restore of (nft|legacy) are installed: install the package iptables for IPv6$/
  const rows: readonly (readonly [host: Host, IPv4: RegExp | undefined, IPv6: RegExp | undefined])[] = [
    [both, undefined, undefined],
    [{ ...both, withoutPrograms: ['IPv6'] }, undefined, no6],
    [{ plain: 'xtables-nft-multi', withoutPrograms: ['IPv6'] }, undefined, no6],
    [{ modes: ['legacy'], withoutPrograms: ['IPv4'] }, /^no iptables-save .* of legacy/, undefined],
    [{ ...both, lacks: { IPv6: 'no nf_tables for IPv6' } }, undefined, undefined],
    [{ plain: 'xtables-nft-multi', lacks: { IPv6: 'no nf_tables for IPv6' } }, undefined, /^no nf_tables for IPv6$/],
    [{ modes: ['legacy'], withoutLegacy: ['IPv6'] }, undefined, /^the kernel has no ip6_tables$/],
    [{ plain: 'xtables-nft-multi', lacks: 'no nf_tables' }, /^no nf_tables$/, /^no nf_tables$/],
  ]
  for (const [host, ...expected] of rows) {
    const { unusable } = (await choose(host)).choice
    for (const [index, family] of (['IPv4', 'IPv6'] as const).entries()) {
      const pattern = expected[index]
      if (pattern === undefined) assert.equal(unusable[family], undefined, JSON.stringify(host))
      else assert.match(unusable[family] ?? 'usable', pattern, JSON.stringify(host))
    }
  }
})

test('chooseIptables loads a module of legacy only when legacy may be chosen and the kernel lacks it', async () => {
  const lacks = 'no nf_tables'
  const rows: readonly (readonly [host: Host, modules: readonly string[]])[] = [
    [both, []],
    [{ ...both, withoutLegacy: ['IPv4', 'IPv6'] }, []],
    [{ ...both, withoutLegacy: ['IPv6'], lacks }, ['ip6_tables']],
    [{ modes: ['legacy'], withoutLegacy: ['IPv4', 'IPv6'] }, ['ip_tables', 'ip6_tables']],
  ]
  for (const [host, modules] of rows) assert.deepEqual((await choose(host)).modules, modules, JSON.stringify(host))
})

test('chooseIptables needs the right to open raw sockets only where the node may use legacy', async () => {
  const withoutRawSockets = true
  const hint = { 'iptables-nft-save': HINT }
  for (const host of [both, { ...both, legacyTables: ['nat'], saves: hint }])
    assert.equal((await choose({ ...host, withoutRawSockets })).choice.mode, 'nft')
  const legacy: readonly Host[] = [
    { modes: ['legacy'] },
    { ...both, lacks: 'no nf_tables' },
    // Only the programs of legacy could tell what these tables hold.
    { ...both, legacyTables: ['nat'] },
  ]
  for (const host of legacy)
    await assert.rejects(choose({ ...host, withoutRawSockets }), (error) => {
      assert.ok(error instanceof CodedError && error.code === 'capability-missing')
      assert.match(
        error.message,
        /^running iptables-legacy, .* takes the capability NET_RAW, .* in a Pod, as user 0 with/,
      )
      return true
    })
})

test('chooseIptables rejects with what to install where no program exists', async () => {
  await assert.rejects(choose({}), (error) => {
    assert.ok(error instanceof CodedError && error.code === 'iptables-missing')
    assert.match(error.message, /no iptables-save and ip6tables-save \(with -restore\) .* install the package iptables/)
    return true
  })
})
