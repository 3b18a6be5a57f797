/**
 * The questions of the start check and its findings, without a kernel. The list of needs is
 * compared with the rules and sets themselves, so that a new match cannot be forgotten.
 */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { CATALOGUE } from '../../src/ipset/catalogue.ts'
import { CHAINS } from '../../src/modes/ipvs/iptables-firewall/rules/chain-names.ts'
import { renderIpvsRules } from '../../src/modes/ipvs/iptables-firewall/rules/render.ts'
import { matchesOf, targetOf } from '../../src/iptables/rule-text.ts'
import { type NeedsOptions, needsOf, type Question } from '../../src/node/needs.ts'
import { checkStart, type Finding } from '../../src/node/start-check.ts'
import { ipvsSysctls } from '../../src/node/kernel-settings.ts'
import { IP_FAMILIES } from '../../src/values/protocol.ts'

const NODE: NeedsOptions = { families: IP_FAMILIES, scheduler: 'rr', iptables: 'nft' }

/** `match ipvs IPv6` */
const nameOf = ({ kind, name, family }: Question): string =>
  [kind, name, family ?? ''].filter((word) => word !== '').join(' ')

/** Checks a node that gives `answer` to the questions whose names match, and true to all others. */
async function check(node: NeedsOptions, pattern: RegExp, answer: false | 'unknown' | Error = false) {
  const asked: string[] = []
  const { findings, missingMatches } = await checkStart(node, [], (question) => {
    const name = nameOf(question)
    asked.push(name)
    if (!pattern.test(name)) return Promise.resolve(true)
    if (answer instanceof Error) return Promise.reject(answer)
    return Promise.resolve(answer === 'unknown' ? undefined : answer)
  })
  return { asked, missing: findings.map(brief), matches: [...missingMatches] }
}

const brief = ({ severity, what, module }: Finding): string => `${severity}: ${what} (${module})`

describe('needsOf', () => {
  it('lists exactly the matches, targets and set types that the rules use', () => {
    const used = new Set<string>()
    for (const family of IP_FAMILIES) {
      const { items } = renderIpvsRules({
        family,
        filled: new Set(CATALOGUE.map((set) => set.name)),
        localTraffic: undefined,
        masqueradeAll: false,
        masqueradeBit: 14,
        randomFully: true,
        virtualAddresses: 'addresses',
        outFilter: [{ address: family === 'IPv4' ? '203.0.113.1' : '2001:db8::1', port: 80, protocol: 'tcp' }],
        missingMatches: new Set(),
        unusableSets: new Set(),
      })
      const rules = [...items.values()].flatMap((item) => (item.kind === 'chain' ? item.rules : [item.rule]))
      for (const rule of rules) {
        for (const match of matchesOf(rule)) used.add(`match ${match} ${family}`)
        const target = targetOf(rule)
        if (target !== undefined) used.add(`target ${target} ${family}`)
      }
      for (const chain of [...CHAINS.nat, ...CHAINS.filter, 'ACCEPT', 'DROP', 'RETURN'])
        used.delete(`target ${chain} ${family}`)
    }
    for (const { type, family } of CATALOGUE)
      used.add(type === 'bitmap:port' ? `set type ${type}` : `set type ${type} ${family}`)
    for (const iptables of ['nft', 'legacy'] as const) {
      const asked = needsOf({ ...NODE, iptables })
        .flat()
        .flatMap((need) => need.families.map((family) => nameOf({ ...need, family })))
      const mentioned = asked.filter((name) => /^(match|target|set type) /.test(name))
      assert.deepEqual(mentioned.toSorted(), [...used].toSorted())
    }
  })
})

describe('checkStart', () => {
  it('finds nothing on a complete node', async () => {
    const { asked, missing, matches } = await check(NODE, /^$/)
    assert.deepEqual([missing, matches], [[], []])
    assert.equal(new Set(asked).size, asked.length, 'no question is asked twice')
    assert.equal(asked[0], 'IPVS')
  })

  it('reports what is missing, its module, and the IP family if only one lacks it', async () => {
    const rows: [title: string, pattern: RegExp, node: Partial<NeedsOptions>, missing: readonly string[]][] = [
      ['IPVS', /^IPVS/, {}, ['fatal: IPVS (ip_vs)']],
      ['the scheduler', /^scheduler/, { scheduler: 'mh' }, ['fatal: scheduler mh (ip_vs_mh)']],
      ['IPv6 in IPVS', /^IPVS of IPv6/, {}, ['error: IPVS of IPv6 ()']],
      ['IPv6 in IPVS, on an IPv4 node', /^IPVS of IPv6/, { families: ['IPv4'] }, []],
      ['sets', /^(ipset|set type)/, {}, ['error: ipset (ip_set)']],
      [
        'a type of sets',
        /^set type hash:ip,port,net/,
        {},
        ['error: set type hash:ip,port,net (ip_set_hash_ipportnet)'],
      ],
      ['a type without family', /^set type bitmap/, {}, ['error: set type bitmap:port (ip_set_bitmap_port)']],
      ['a type in one family', /hash:ip IPv6/, {}, ['error: set type hash:ip of IPv6 (ip_set_hash_ip)']],
      ['nf_tables', /^(nf_tables|nft_compat|nft_chain_nat|match|target)/, {}, ['error: nf_tables (nf_tables)']],
      [
        'nf_tables of a family',
        /^(nf_tables|nft_chain_nat|match|target).*IPv6/,
        {},
        ['error: nf_tables of IPv6 (nf_tables)'],
      ],
      ['nat in nf_tables', /^nft_chain_nat/, {}, ['error: nft_chain_nat (nft_chain_nat)']],
      ['nft_compat', /^(nft_compat|match|target)/, {}, ['error: nft_compat (nft_compat)']],
      [
        'legacy iptables of IPv6',
        /IPv6$/,
        { iptables: 'legacy', families: ['IPv4', 'IPv6'] },
        [
          'error: IPVS of IPv6 ()',
          ...['hash:ip,port', 'hash:ip,port,ip', 'hash:ip,port,net', 'hash:ip'].map(
            (type) => `error: set type ${type} of IPv6 (ip_set_${type.replace(':', '_').replaceAll(',', '')})`,
          ),
          'warning: ip_tables of IPv6 (ip6_tables)',
        ],
      ],
      [
        'a target with a module for each family',
        /^target REJECT/,
        {},
        ['error: target REJECT (ipt_REJECT ip6t_REJECT)'],
      ],
      ['one of them', /^target REJECT IPv6/, {}, ['error: target REJECT of IPv6 (ip6t_REJECT)']],
      ['programs', /^$/, { iptables: undefined }, ['error: program iptables-restore ()']],
      ['conntrack', /^connection tracking/, {}, ['error: connection tracking (nf_conntrack)']],
      [
        'several, the worst first',
        /^(ctnetlink|match set|scheduler)/,
        {},
        ['fatal: scheduler rr (ip_vs_rr)', 'error: match set (xt_set)', 'warning: ctnetlink (nf_conntrack_netlink)'],
      ],
    ]
    for (const [title, pattern, node, expected] of rows)
      assert.deepEqual((await check({ ...NODE, ...node }, pattern)).missing, expected, title)
  })

  it('lists the missing matches', async () => {
    const { matches, missing } = await check(NODE, /^match (ipvs|physdev IPv4)/)
    assert.deepEqual(matches, ['physdev', 'ipvs'])
    assert.deepEqual(missing, ['warning: match physdev of IPv4 (xt_physdev)', 'warning: match ipvs (xt_ipvs)'])
  })

  it('does not report what the kernel cannot answer', async () => {
    assert.deepEqual((await check(NODE, /^(scheduler|IPVS of IPv6)/, 'unknown')).missing, [])
  })

  it('reports a failed question once for its group and checks the other groups', async () => {
    const { missing, asked } = await check(NODE, /^(IPVS|match set)/, new Error('EPERM'))
    assert.deepEqual(missing, ['warning: cannot ask for IPVS ()', 'warning: cannot ask for nf_tables ()'])
    assert.ok(asked.includes('connection tracking') && asked.includes('set type hash:ip IPv6'))
  })
})

describe('checkStart, settings', () => {
  const root = mkdtempSync(join(tmpdir(), 'kube-ipvs-sysctl-'))
  after(() => rmSync(root, { recursive: true }))

  it('reports exactly the settings that do not exist', async () => {
    for (const name of ['net/ipv4/vs/conntrack', 'net/ipv4/vs/expire_nodest_conn', 'net/ipv4/conf/all/arp_ignore']) {
      mkdirSync(dirname(join(root, 'proc/sys', name)), { recursive: true })
      writeFileSync(join(root, 'proc/sys', name), '0\n')
    }
    const missing = async (hasIpvs: boolean): Promise<string[]> => {
      const ask = ({ kind }: Question): Promise<boolean> => Promise.resolve(kind !== 'IPVS' || hasIpvs)
      return (await checkStart(NODE, ipvsSysctls(true, '6.1.0'), ask, root)).findings.map(
        ({ severity, what }) => `${severity}: ${what}`,
      )
    }
    const others = ['error: sysctl net/ipv4/ip_forward', 'warning: sysctl net/ipv4/conf/all/arp_announce']
    assert.deepEqual(await missing(true), [
      others[0],
      'warning: sysctl net/ipv4/vs/expire_quiescent_template',
      others[1],
    ])
    assert.deepEqual(await missing(false), ['fatal: IPVS', ...others], 'settings of IPVS are not reported without IPVS')
  })
})
