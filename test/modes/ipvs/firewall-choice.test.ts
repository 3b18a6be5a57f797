/** Which firewall a node gets: the decision as a table of cases, and how often a firewall is asked for it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type DroppingChain,
  droppingAmong,
  droppingProblems,
  ruleToAdd,
} from '../../../src/modes/ipvs/dropping-chains.ts'
import type { ConfiguredFirewall, FirewallName } from '../../../src/modes/chosen-firewall.ts'
import type { FirewallKind, FirewallRemains } from '../../../src/modes/ipvs/firewall.ts'
import { decideFirewall, type FirewallsSeen } from '../../../src/modes/ipvs/firewall-choice.ts'
import { allRemains, chooseFirewall, isAnyLeft, KeptFromNftables } from '../../../src/modes/ipvs/firewalls.ts'
import { CodedError } from '../../../src/values/errors.ts'

const lack = (code: string): CodedError => new CodedError(code, `lacks ${code}`)
const FORWARD: DroppingChain = { table: 'ip filter', chain: 'FORWARD', hook: 'forward', isOfIptables: true }
const FIREWALLD: DroppingChain = {
  table: 'inet firewalld',
  chain: 'filter_FORWARD',
  hook: 'forward',
  isOfIptables: false,
}
const WORKS: FirewallsSeen = { iptables: undefined, nftables: undefined, dropping: [], mayFallBack: true }
const NO_NFT = lack('nftables-missing')

test('decideFirewall takes iptables where it works, nftables where it does not, and nothing in place of a named one', () => {
  const rows: readonly [ConfiguredFirewall, Partial<FirewallsSeen>, decided: string][] = [
    ['auto', {}, 'iptables'],
    // A drop beside iptables concerns both, and nobody asked for another firewall.
    ['auto', { dropping: [FORWARD, FIREWALLD] }, 'iptables'],
    ['auto', { nftables: NO_NFT }, 'iptables'],
    ['auto', { iptables: lack('iptables-missing') }, 'nftables (iptables-missing)'],
    ['auto', { iptables: lack('ipset-missing') }, 'nftables (ipset-missing)'],
    ['auto', { iptables: lack('set-match-missing') }, 'nftables (set-match-missing)'],
    ['auto', { iptables: lack('ipset-missing'), mayFallBack: false }, 'nftables (ipset-missing)'],
    // What iptables mode accepts counts in the chain that drops.
    ['auto', { iptables: lack('ipset-missing'), dropping: [FORWARD] }, 'ipset-missing, 1 chain'],
    ['auto', { iptables: lack('set-match-missing'), dropping: [FORWARD] }, 'set-match-missing, 1 chain'],
    // Both firewalls accept nothing there.
    [
      'auto',
      { iptables: lack('ipset-missing'), dropping: [{ ...FORWARD, hook: 'input' }] },
      'nftables (ipset-missing)',
    ],
    // No other mode would serve better.
    ['auto', { iptables: lack('ipset-missing'), dropping: [FIREWALLD] }, 'nftables (ipset-missing)'],
    ['auto', { iptables: lack('ipset-missing'), dropping: [FORWARD, FIREWALLD] }, 'nftables (ipset-missing)'],
    ['auto', { iptables: lack('iptables-missing'), dropping: [FORWARD] }, 'nftables (iptables-missing)'],
    ['auto', { iptables: lack('ipset-missing'), dropping: [FORWARD], mayFallBack: false }, 'nftables (ipset-missing)'],
    ['auto', { iptables: lack('ipset-missing'), nftables: NO_NFT }, 'ipset-missing, 0 chains'],
    ['auto', { iptables: lack('iptables-missing'), nftables: NO_NFT }, 'iptables-missing, 0 chains'],
    ['iptables', {}, 'iptables'],
    ['iptables', { iptables: lack('ipset-missing') }, 'ipset-missing, 0 chains'],
    ['iptables', { iptables: lack('iptables-missing') }, 'iptables-missing, 0 chains'],
    ['nftables', {}, 'nftables'],
    ['nftables', { dropping: [FORWARD] }, 'nftables'],
    ['nftables', { nftables: NO_NFT }, 'nftables-missing, 0 chains'],
  ]
  for (const [configured, seen, decided] of rows) {
    const decision = decideFirewall(configured, { ...WORKS, ...seen })
    const text =
      'error' in decision
        ? `${decision.error.code}, ${decision.dropping.length} chain${decision.dropping.length === 1 ? '' : 's'}`
        : `${decision.chosen.name}${decision.chosen.lack === '' ? '' : ` (${decision.chosen.lack})`}`
    assert.equal(text, decided, JSON.stringify([configured, seen]))
  }
})

/** Kinds that only note what is asked of them. */
function kindsOf(lacks: { readonly [name in FirewallName]?: Error }, left: readonly FirewallName[] = []) {
  const seen: string[] = []
  const kind = (name: FirewallName): FirewallKind => ({
    open: async () => assert.fail('not opened here'),
    ask: async () => {
      seen.push(name)
      const { [name]: error } = lacks
      if (error !== undefined) throw error
    },
    isLeft: async () => left.includes(name),
    remains: async () => {
      if (!left.includes(name)) return undefined
      const remains: FirewallRemains = {
        owned: async () => (key) => key.includes(name === 'iptables' ? ':80/' : ':443/'),
        removal: () => [],
        close: () => void seen.push(`close ${name}`),
      }
      return remains
    },
  })
  const kinds = { iptables: async () => kind('iptables'), nftables: async () => kind('nftables') }
  return { kinds, seen }
}

const signal = new AbortController().signal

function choose(
  firewall: ConfiguredFirewall,
  lacks: Parameters<typeof kindsOf>[0],
  dropping: readonly DroppingChain[] = [],
) {
  const { kinds, seen } = kindsOf(lacks)
  const attempt = (kind: FirewallKind) => kind.ask({ families: ['IPv4'], lacks: [] }, signal, { mayLoadModules: false })
  const settings = { firewall, fallback: 'iptables' } as const
  const chosen = chooseFirewall({ settings, attempt, signal, kinds, dropping: async () => dropping })
  return { chosen: chosen.then((it) => it.chosen), seen }
}

test('chooseFirewall asks the nftables firewall only where iptables lacks something', async () => {
  const works = choose('auto', {})
  assert.equal((await works.chosen).name, 'iptables')
  assert.deepEqual(works.seen, ['iptables'])
  const without = choose('auto', { iptables: lack('ipset-missing') })
  assert.deepEqual(await without.chosen, {
    name: 'nftables',
    configured: 'auto',
    lack: 'ipset-missing',
    reason: 'that of iptables cannot work here: lacks ipset-missing',
  })
  assert.deepEqual(without.seen, ['iptables', 'nftables'])
  const named = choose('nftables', { iptables: lack('ipset-missing') }, [FORWARD])
  assert.equal((await named.chosen).reason, 'kubeIPVS.firewall is nftables')
  assert.deepEqual(named.seen, ['nftables'])
})

test('chooseFirewall decides without the chains of other firewalls where these cannot be read or do not matter', async () => {
  const rows: readonly [code: string, fallback: 'iptables' | 'none', reads: number][] = [
    ['ipset-missing', 'iptables', 1],
    ['ipset-missing', 'none', 0],
    ['iptables-missing', 'iptables', 0],
  ]
  for (const [code, fallback, reads] of rows) {
    const unread: unknown[] = []
    const error = new CodedError('netlink-dump-interrupted', 'the table changed')
    const dropping = async (): Promise<readonly DroppingChain[]> => {
      throw error
    }
    const { kinds } = kindsOf({ iptables: lack(code) })
    const settings = { firewall: 'auto', fallback } as const
    const attempt = (kind: FirewallKind) =>
      kind.ask({ families: ['IPv4'], lacks: [] }, signal, { mayLoadModules: false })
    const onUnread = (one: unknown): void => void unread.push(one)
    const { chosen } = await chooseFirewall({ settings, attempt, signal, kinds, dropping, onUnread })
    assert.deepEqual([chosen.name, unread], ['nftables', Array.from({ length: reads }, () => error)], code)
  }
  const stopped = AbortSignal.abort(new Error('stopped'))
  const attempt = (kind: FirewallKind) => kind.ask({ families: ['IPv4'], lacks: [] }, signal, { mayLoadModules: false })
  const { kinds } = kindsOf({ iptables: lack('ipset-missing') })
  const settings = { firewall: 'auto', fallback: 'iptables' } as const
  const dropping = async (abort: AbortSignal): Promise<never> => {
    throw abort.reason
  }
  await assert.rejects(chooseFirewall({ settings, attempt, signal: stopped, kinds, dropping }), /stopped/)
})

test('chooseFirewall rejects with what is missing, and with any other error as it is', async () => {
  const both = choose('auto', { iptables: lack('ipset-missing'), nftables: NO_NFT })
  await assert.rejects(both.chosen, {
    code: 'ipset-missing',
    message: /lacks ipset-missing; nor .* lacks nftables-missing/,
  })
  await assert.rejects(choose('nftables', { nftables: NO_NFT }).chosen, { code: 'nftables-missing' })
  await assert.rejects(choose('iptables', { iptables: lack('set-match-missing') }).chosen, {
    code: 'set-match-missing',
  })
  await assert.rejects(choose('auto', { iptables: lack('EPERM') }).chosen, { code: 'EPERM' })
  const kept = choose('auto', { iptables: lack('ipset-missing') }, [FORWARD])
  await assert.rejects(kept.chosen, (error) => error instanceof KeptFromNftables && error.dropping.length === 1)
  assert.deepEqual(kept.seen, ['iptables'])
})

test('droppingAmong finds the chains whose policy drops forwarded or incoming packets, but for those of proxies', () => {
  const chain = {
    family: 'inet',
    table: 'filter',
    chain: 'forward',
    hook: 'forward',
    priority: 0,
    type: 'filter',
    policy: 'drop',
  } as const
  const found = droppingAmong([
    chain,
    { ...chain, policy: 'accept' },
    { ...chain, hook: 'output' },
    { ...chain, hook: 'prerouting' },
    { ...chain, table: 'kube-proxy' },
    { ...chain, family: 'ip', table: 'kube-ipvs' },
    { ...chain, family: 'ip6', chain: 'FORWARD' },
    { ...chain, family: 'ip', chain: 'INPUT', hook: 'input' },
  ])
  assert.deepEqual(
    found.map(({ table, chain: name, isOfIptables }) => [table, name, isOfIptables]),
    [
      ['inet filter', 'forward', false],
      ['ip6 filter', 'FORWARD', true],
      ['ip filter', 'INPUT', true],
    ],
  )
  assert.deepEqual(found.map(ruleToAdd), [
    'nft insert rule inet filter forward ct state established,related accept',
    'ip6tables -I FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT',
    'iptables -A INPUT -d SERVICE-ADDRESSES -j ACCEPT',
  ])
  const [problem] = droppingProblems(found)
  assert.equal(problem?.code, 'policy-drops')
  assert.match(
    problem?.message ?? '',
    /chain forward of table inet filter .*"nft insert rule inet filter forward ct state/,
  )
  assert.deepEqual(droppingProblems([]), [])
})

test('what firewalls of every kind left is found together, and a virtual server is ours if any says so', async () => {
  assert.equal(await isAnyLeft(['IPv4'], signal, kindsOf({}).kinds), false)
  assert.equal(await isAnyLeft(['IPv4'], signal, kindsOf({}, ['nftables']).kinds), true)
  assert.equal(await allRemains(['IPv4'], signal, kindsOf({}).kinds), undefined)
  const { kinds, seen } = kindsOf({}, ['iptables', 'nftables'])
  const remains = await allRemains(['IPv4'], signal, kinds)
  const owned = await remains?.owned(new Set(), signal)
  assert.deepEqual(
    ['10.0.0.1:80/tcp', '10.0.0.1:443/tcp', '10.0.0.1:8080/tcp'].map((key) => owned?.(key)),
    [true, true, false],
  )
  remains?.close()
  assert.deepEqual(seen, ['close iptables', 'close nftables'])
})
