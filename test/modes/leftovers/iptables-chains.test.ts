import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { leftoversOf } from '../../../src/modes/leftovers/iptables-chains.ts'
import { parseSave } from '../../../src/iptables/save-text.ts'
import { recordingPath } from '../../support/recordings.ts'

const CASE = 'cases/all-kinds/recorded/iptables/1'
const names = (commands: readonly string[], option: string): string[] =>
  commands.flatMap((command) => (command.includes(` ${option} `) ? command.split(' ').slice(-1) : []))

test('leftoversOf takes every chain of iptables mode and every jump to one', () => {
  for (const [family, file] of [
    ['IPv4', 'iptables.txt'],
    ['IPv6', 'ip6tables.txt'],
  ] as const) {
    const text = readFileSync(recordingPath(`${CASE}/${file}`), 'utf8')
    const saved = parseSave(text)
    const found = leftoversOf(saved, family, '')
    for (const { table, commands } of found) {
      const chains = [...(saved.get(table)?.keys() ?? [])].filter((chain) => chain.startsWith('KUBE-'))
      // Those that ipvs mode has too are left to it.
      const both = ['KUBE-MARK-MASQ', 'KUBE-POSTROUTING', 'KUBE-FORWARD', 'KUBE-PROXY-FIREWALL']
      const shared = table === 'nat' ? [...both, 'KUBE-SERVICES'] : both
      assert.deepEqual(
        names(commands, '-X').sort(),
        chains.filter((chain) => !shared.includes(chain)).sort(),
        `${family} ${table}`,
      )
    }
    assert.deepEqual(found.map(({ table }) => table).sort(), ['filter', 'mangle', 'nat'])
    const jumps = found.flatMap(({ commands }) => names(commands, '-D'))
    assert.equal(jumps.filter((target) => target === 'KUBE-FIREWALL').length, 2)
    assert.equal(jumps.filter((target) => target === 'KUBE-EXTERNAL-SERVICES').length, 2)
  }
})

const SAVED = `*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
:MINE - [0:0]
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A INPUT -j MINE
-A MINE -j KUBE-SERVICES
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-FUB4O6EOGILN62XS - [0:0]
:KUBE-SVC-OF-MINE - [0:0]
:KUBE-MARK-DROP - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.1/32 -j KUBE-SVC-FUB4O6EOGILN62XS
COMMIT
`

test('leftoversOf leaves what is of kubelet, of others, or of ipvs mode', () => {
  const found = leftoversOf(parseSave(SAVED), 'IPv4', '-legacy')
  assert.deepEqual(
    found.flatMap(({ commands }) => commands),
    [
      'iptables-legacy -t filter -D FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
      // Emptied but not deleted: somebody else leads to it.
      'iptables-legacy -t filter -F KUBE-SERVICES',
      'iptables-legacy -t nat -F KUBE-SVC-FUB4O6EOGILN62XS',
      'iptables-legacy -t nat -F KUBE-SERVICES',
      'iptables-legacy -t nat -X KUBE-SVC-FUB4O6EOGILN62XS',
    ],
  )
  assert.deepEqual(
    found.map(({ restore }) => restore),
    [
      '*filter\n:KUBE-SERVICES - [0:0]\n-D FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES\nCOMMIT\n',
      '*nat\n:KUBE-SVC-FUB4O6EOGILN62XS - [0:0]\n:KUBE-SERVICES - [0:0]\n-X KUBE-SVC-FUB4O6EOGILN62XS\nCOMMIT\n',
    ],
  )
  assert.deepEqual(leftoversOf(parseSave('*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n'), 'IPv4', ''), [])
})
