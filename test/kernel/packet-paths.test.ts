/**
 * The packet paths that docs/packet-paths.md draws: at which hooks of the kernel the packets of one
 * connection appear, and with which addresses. Chains at priority 0 of each hook are where the
 * table filter is: after nat of PREROUTING and OUTPUT, before nat of POSTROUTING.
 */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { ADDRESSES, Cluster, type From, NODE } from '../support/cluster.ts'
import { type Workbench } from '../support/daemon.ts'
import { removeVirtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { bothFamilies, everyKind, frontend } from '../support/every-kind.ts'
import { needs } from './needs.ts'

const HOOKS = ['prerouting', 'input', 'forward', 'output', 'postrouting'] as const
type Hook = (typeof HOOKS)[number]
const VIP = frontend(1, 'ClusterIP', 'IPv4', 'tcp')

const RECORDER = `table ip paths {
${HOOKS.map(
  (hook) => `  set ${hook}_seen { type ipv4_addr . ipv4_addr; flags dynamic; size 64; }
  chain ${hook}_chain {
    type filter hook ${hook} priority 0;
    tcp sport { 80, 8080 } update @${hook}_seen { ip saddr . ip daddr }
    tcp dport { 80, 8080 } update @${hook}_seen { ip saddr . ip daddr }
  }`,
).join('\n')}
}`

/** By hook, sorted: `client > VIP`. */
type Seen = Readonly<Record<Hook, readonly string[]>>

const NAMES: Readonly<Record<string, string>> = {
  [ADDRESSES.client.IPv4]: 'client',
  [ADDRESSES.a.IPv4]: 'a',
  [ADDRESSES.b.IPv4]: 'b',
  [NODE.IPv4]: 'node',
  [VIP.address]: 'VIP',
}

function seen(): Seen {
  const at = (hook: Hook): string[] => {
    const text = sh(`nft list set ip paths ${hook}_seen`)
    return Array.from(text.matchAll(/([\d.]+) \. ([\d.]+)/g), ([, from = '', to = '']) =>
      [from, to].map((address) => NAMES[address] ?? address).join(' > '),
    ).sort()
  }
  return {
    prerouting: at('prerouting'),
    input: at('input'),
    forward: at('forward'),
    output: at('output'),
    postrouting: at('postrouting'),
  }
}

const PATHS: Readonly<Record<'ipvs' | 'iptables', readonly (readonly [From, Seen])[]>> = {
  ipvs: [
    [
      'client',
      {
        prerouting: ['a > client', 'client > VIP'],
        input: ['client > VIP'],
        forward: ['a > client'],
        output: ['client > a'],
        postrouting: ['VIP > client', 'client > a'],
      },
    ],
    [
      'b',
      {
        prerouting: ['a > b', 'b > VIP'],
        input: ['b > VIP'],
        forward: ['a > b'],
        output: ['b > a'],
        postrouting: ['VIP > b', 'b > a'],
      },
    ],
    [
      'node',
      { prerouting: ['a > VIP'], input: ['a > VIP'], forward: [], output: ['VIP > a'], postrouting: ['VIP > a'] },
    ],
  ],
  iptables: [
    [
      'client',
      {
        prerouting: ['a > client', 'client > a'],
        input: [],
        forward: ['a > client', 'client > a'],
        output: [],
        postrouting: ['a > client', 'client > a'],
      },
    ],
    [
      'node',
      { prerouting: ['a > node'], input: ['a > node'], forward: [], output: ['node > a'], postrouting: ['node > a'] },
    ],
  ],
}

describe('a connection to a cluster IP', needs('nft', 'iptables-nft'), () => {
  let cluster: Cluster
  let bench: Workbench
  before(() => {
    cluster = Cluster.start(['tcp'])
    // In iptables mode the node needs a route to an address before a rule can send it elsewhere.
    sh(`ip route add default via ${ADDRESSES.client.IPv4}`)
  })
  afterEach(async () => {
    await bench.close()
    // Else iptables mode leaves the addresses of ipvs mode until the kernel has forgotten the connections.
    removeVirtualServers()
  })
  after(() => cluster.stop())

  for (const mode of ['ipvs', 'iptables'] as const)
    it(`passes the hooks that the drawing of ${mode} mode has`, async () => {
      bench = bothFamilies({}, { clusterCIDR: '10.244.0.0/16,fd00:10:244::/47', mode })
      bench.write('web.yaml', ...everyKind(1, ['a']))
      bench.start()
      for (const [from, expected] of PATHS[mode])
        await eventually(async () => {
          sh(`nft delete table ip paths 2>/dev/null; nft -f - <<'END'\n${RECORDER}\nEND`)
          assert.match(await cluster.ask(from, VIP), /^a /)
          assert.deepEqual(seen(), expected, from)
        })
      sh('nft delete table ip paths')
    })
})
