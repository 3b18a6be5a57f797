/** docs/kernel-objects.md lists every object of the kernel that the code writes, and the documents name no other. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { CATALOGUE, SET_ROLES, setName, temporaryName } from '../../src/ipset/catalogue.ts'
import type { ChainSet } from '../../src/iptables/layout.ts'
import { INVALID_COUNTER } from '../../src/modes/iptables/chains/fixed-render.ts'
import { IPTABLES_CHAINS } from '../../src/modes/iptables/chains/chain-names.ts'
import { LOOPBACK_COUNTER } from '../../src/modes/iptables/chains/service-port-render.ts'
import { CHAINS, IPVS_CHAINS } from '../../src/modes/ipvs/iptables-firewall/rules/chain-names.ts'
import { layoutOf, RANGES } from '../../src/modes/ipvs/nftables-firewall/layout.ts'
import { CLEANUP_LAYOUT } from '../../src/modes/leftovers/layouts.ts'
import { ipv6Setting } from '../../src/node/device-ipv6.ts'
import { conntrackSettings, iptablesSysctls, ipvsSysctls } from '../../src/node/kernel-settings.ts'
import { SERVICE_DEVICE } from '../../src/values/well-known.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')
const PAGE = read('docs/kernel-objects.md')

/** The section under a heading of the second level. */
function section(title: string): string {
  const [, rest] = PAGE.split(`\n## ${title}\n`)
  assert.ok(rest !== undefined, title)
  return rest.split('\n## ')[0] ?? ''
}

/** Cells of the rows of all tables in a text. */
function rowsOf(text: string): string[][] {
  return text
    .split('\n')
    .filter((line) => line.startsWith('| ') && !line.startsWith('| ---'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )
}

/** `nat KUBE-SERVICES` of each row, in order. */
function chainRows(title: string): { readonly key: string; readonly from: string }[] {
  return rowsOf(section(title)).flatMap(([tables = '', chain = '', from = '']) =>
    /^(nat|filter)/.test(tables)
      ? tables.split(', ').map((table) => ({ key: `${table} ${chain.replaceAll('`', '')}`, from }))
      : [],
  )
}

function chainsOf({ chains, hashedChains = [] }: ChainSet): string[] {
  return [
    ...Object.entries(chains).flatMap(([table, names]) => names.map((name) => `${table} ${name}`)),
    ...hashedChains.map((name) => `nat ${name}-…`),
  ]
}

describe('docs/kernel-objects.md', () => {
  it('has a row for each set, with its type', () => {
    const rows = rowsOf(section('ipvs mode')).filter(([, type = '']) => /^(hash|bitmap):/.test(type))
    const wanted = SET_ROLES.map((role) => {
      const set = CATALOGUE.find(({ name }) => name === setName(role, 'IPv4'))
      return `\`${set?.name}\` ${set?.type}`
    })
    assert.deepEqual(rows.map(([name, type]) => `${name} ${type}`).sort(), wanted.sort())
  })

  it('has a row for each set and chain of the private tables', () => {
    const [, part = ''] = PAGE.split('### The private tables of the nftables firewall')
    const rows = rowsOf(part.split('\n## ')[0] ?? '').map(([name = '', where = '']) => ({
      name: name.replaceAll('`', ''),
      where,
    }))
    const settings = { localTraffic: undefined, masqueradeAll: false, masqueradeBit: 14 }
    const items = layoutOf({ ...settings, family: 'IPv4', isOwned: true, takesAll: true, refuses: true })
    const sets = items.flatMap((item) => (item.kind === 'set' ? [item.name] : []))
    const chains = items.flatMap((item) => (item.kind === 'chain' ? [item] : []))
    assert.deepEqual(
      rows.map(({ name }) => name),
      [
        'set in the private table',
        ...sets,
        'chain in the private table',
        ...chains.map(({ name }) => name),
        `${RANGES}NAMESPACE/NAME`,
      ],
    )
    for (const { name, hook } of chains) {
      const where = hook === undefined ? '-' : `${hook.hook}, ${hook.type}, priority ${hook.priority}`
      assert.equal(rows.find((row) => row.name === name)?.where, where, name)
    }
  })

  it('names the sets whose IPv6 name is cut, and the temporary sets', () => {
    const cut = SET_ROLES.map((role) => setName(role, 'IPv6')).filter(
      (name, index) => name !== `KUBE-6-${SET_ROLES[index]}`,
    )
    assert.equal(cut.length, 2)
    for (const name of cut) assert.ok(PAGE.includes(`\`${name}\``), name)
    const [first, last] = [CATALOGUE[0], CATALOGUE.at(-1)]
    assert.ok(first !== undefined && last !== undefined)
    assert.ok(PAGE.includes(`\`${temporaryName(first)}\` to \`${temporaryName(last)}\``))
  })

  for (const [title, chains] of [
    ['ipvs mode', IPVS_CHAINS],
    ['iptables mode', IPTABLES_CHAINS],
  ] as const) {
    it(`has a row for each chain of ${title}`, () => {
      assert.deepEqual(
        chainRows(title)
          .map(({ key }) => key)
          .sort(),
        chainsOf(chains).sort(),
      )
    })

    it(`names the built-in chains that jump to chains of ${title}`, () => {
      const rows = chainRows(title)
      for (const { table, from, to } of chains.jumps) {
        const row = rows.find(({ key }) => key === `${table} ${to}`)
        assert.ok(row?.from.includes(from), `${table} ${from} ${to}`)
      }
    })
  }

  it('has a row for each setting of the kernel', () => {
    const conntrack = {
      maxPerCore: 1,
      min: 1,
      tcpEstablishedTimeoutMs: 1000,
      tcpCloseWaitTimeoutMs: 1000,
      tcpBeLiberal: true,
      udpTimeoutMs: 1000,
      udpStreamTimeoutMs: 1000,
    }
    const settings = [
      ...ipvsSysctls(true, '5.4.0'),
      ipv6Setting(SERVICE_DEVICE),
      ...iptablesSysctls(true),
      ...conntrackSettings(conntrack, 1),
    ]
    const names = settings.map(({ path }) => `\`${path.replace('/proc/sys/', '')}\``)
    const rows = rowsOf(section('Settings of the kernel')).slice(1)
    assert.deepEqual(rows.map(([name = '']) => name).sort(), names.sort())
  })

  it('names the device and the counters', () => {
    for (const name of [SERVICE_DEVICE, INVALID_COUNTER, LOOPBACK_COUNTER])
      assert.ok(PAGE.includes(`\`${name}\``), name)
  })
})

describe('the documents', () => {
  /** Chains of kubelet. */
  const OTHERS = ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY']
  const known = new Set([
    ...CATALOGUE.map(({ name }) => name),
    ...Object.values(CLEANUP_LAYOUT.chains).flat(),
    ...Object.values(CHAINS).flat(),
    ...(IPTABLES_CHAINS.hashedChains ?? []),
    ...OTHERS,
  ])
  /** `KUBE-SVC-…`, `KUBE-*` and `KUBE-6-…` stand for several names; a name with a hash is an example. */
  const unknownIn = (text: string): string[] =>
    Array.from(text.matchAll(/\bKUBE-[A-Z0-9-]*[A-Z0-9]/g), ([name]) => name).filter((name) => {
      const prefix = name.replace(/-[A-Z2-7]{16}$/, '')
      return !known.has(prefix) && name !== 'KUBE-6'
    })

  for (const document of globSync(['*.md', 'docs/**/*.md'], { cwd: ROOT }))
    it(`${document} names only sets and chains that the code has`, () => {
      assert.deepEqual(unknownIn(read(document)), [])
    })

  it('with a wrong name are found', () => {
    assert.deepEqual(unknownIn('`KUBE-SERVICES`, `KUBE-SERVICE`, KUBE-SVC-XPGD46QRK7WJZT7O, KUBE-6-…, `KUBE-*`'), [
      'KUBE-SERVICE',
    ])
  })
})
