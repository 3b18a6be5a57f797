import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { savedFrontends } from '../../../src/modes/iptables/saved-frontends.ts'
import { parseSave } from '../../../src/iptables/save-text.ts'
import { recordingPath } from '../../support/recordings.ts'

const RECORDED = 'cases/all-kinds/recorded/iptables/1'

/** A table with these rules and their chains. */
function table(name: string, rules: readonly string[]): string {
  const chains = new Set(rules.map((rule) => rule.split(' ')[0] ?? ''))
  return `*${name}\n${[...chains].map((chain) => `:${chain} - [0:0]\n`).join('')}${rules.map((rule) => `-A ${rule}\n`).join('')}COMMIT\n`
}

/** The frontends that are found, one line each. */
function found(nat: readonly string[], filter: readonly string[], family: 'IPv4' | 'IPv6' = 'IPv4'): string[] {
  const text = table('nat', nat) + table('filter', ['KUBE-EXTERNAL-SERVICES -m comment --comment x', ...filter])
  return savedFrontends(parseSave(text), family).map(
    ({ service, kind, key, endpoints, without }) => `${service} | ${kind} | ${key} | ${without ?? endpoints.join(' ')}`,
  )
}

test('savedFrontends reads what kube-proxy wrote for every kind of address', () => {
  const saved = parseSave(readFileSync(`${recordingPath(RECORDED)}/iptables.txt`, 'utf8'))
  const web = '10.244.0.10:8080 10.244.1.10:8080 10.244.1.11:8080'
  const two = '10.244.0.20:8080 10.244.1.20:8080'
  assert.deepEqual(
    savedFrontends(saved, 'IPv4').map(
      ({ service, kind, key, endpoints }) => `${service} | ${kind} | ${key} | ${endpoints.toSorted().join(' ')}`,
    ),
    [
      'default/kubernetes:https | cluster IP | 10.96.0.1:443/tcp | 10.0.2.2:6443',
      `demo/two:http | node port | 0.0.0.0:30081/tcp | ${two}`,
      `demo/two:http | cluster IP | 10.96.10.2:80/tcp | ${two}`,
      `demo/two:http | external IP | 198.51.100.8:80/tcp | ${two}`,
      // The policy for clients from outside is Local.
      'demo/web:http | node port | 0.0.0.0:30080/tcp | 10.244.0.10:8080',
      `demo/web:http | cluster IP | 10.96.10.1:80/tcp | ${web}`,
      'demo/web:http | external IP | 198.51.100.7:80/tcp | 10.244.0.10:8080',
      'demo/web:http | load balancer | 203.0.113.10:80/tcp | 10.244.0.10:8080',
    ],
  )
})

test('savedFrontends distinguishes refused and dropped connections', () => {
  const refused = (what: string, target: string, chain = 'KUBE-SERVICES'): string =>
    `${chain} -d 10.96.0.1/32 -p tcp -m comment --comment "demo/a:http ${what}" -m tcp --dport 80 -j ${target}`
  assert.deepEqual(found([], [refused('has no endpoints', 'REJECT --reject-with icmp-port-unreachable')]), [
    'demo/a:http | cluster IP | 10.96.0.1:80/tcp | refused',
  ])
  assert.deepEqual(found([], [refused('has no local endpoints', 'DROP', 'KUBE-EXTERNAL-SERVICES')]), [
    'demo/a:http | external | 10.96.0.1:80/tcp | dropped',
  ])
  const port =
    '-p udp -m comment --comment "demo/a:dns has no local endpoints" -m addrtype --dst-type LOCAL -m udp --dport 30053'
  assert.deepEqual(
    found(
      ['KUBE-NODEPORTS -p udp -m comment --comment "demo/a:dns" -m udp --dport 30053 -j KUBE-EXT-A'],
      [`KUBE-EXTERNAL-SERVICES ${port} -j DROP`],
    ),
    ['demo/a:dns | node port | 0.0.0.0:30053/udp | dropped'],
  )
})

test('savedFrontends lists each endpoint once, and ports without a name', () => {
  const rules = [
    'KUBE-SERVICES -d fd00:10:96::1/128 -p tcp -m comment --comment "demo/six cluster IP" -m tcp --dport 80 -j KUBE-SVC-A',
    'KUBE-SVC-A -d fd00:10:96::1/128 -p tcp -m comment --comment "demo/six cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ',
    'KUBE-SVC-A -m comment --comment "demo/six -> [fd00::5]:80" -m recent --rcheck --seconds 9 --reap --name KUBE-SEP-A --rsource -j KUBE-SEP-A',
    'KUBE-SVC-A -m comment --comment "demo/six -> [fd00::5]:80" -j KUBE-SEP-A',
    'KUBE-SEP-A -p tcp -m comment --comment demo/six -m recent --set --name KUBE-SEP-A --rsource -m tcp -j DNAT --to-destination [fd00::5]:80',
  ]
  assert.deepEqual(found(rules, [], 'IPv6'), ['demo/six | cluster IP | [fd00:10:96::1]:80/tcp | [fd00::5]:80'])
})

test('savedFrontends reads each chain once, however many rules lead to it', () => {
  const many = Array.from({ length: 300 }, () => 'KUBE-SVC-A -j KUBE-SVC-A')
  const rules = [
    ...Array.from(
      { length: 300 },
      (_, index) =>
        `KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "demo/web cluster IP" --dport ${index} -j KUBE-SVC-A`,
    ),
    ...many,
    'KUBE-SVC-A -j KUBE-SEP-A',
    'KUBE-SEP-A -p tcp -j DNAT --to-destination 10.244.0.1:80',
  ]
  const lines = found(rules, [])
  assert.equal(lines.length, 300)
  assert.ok(lines.every((line) => line.endsWith('| 10.244.0.1:80')))
})

test('savedFrontends knows the kinds of kube-proxy, and no names that every object has', () => {
  for (const words of ['constructor', 'toString', 'cluster ip'])
    assert.deepEqual(
      found(
        [`KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "demo/web ${words}" --dport 80 -j KUBE-SVC-A`],
        [],
      ),
      [],
    )
})

test('savedFrontends ignores foreign rules and rules of ipvs mode', () => {
  assert.deepEqual(
    found(
      [
        'KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A',
        'KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "mine cluster IP" -m tcp --dport 80 -j KUBE-SVC-A',
        'KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "demo/a:http cluster IP" -m tcp --dport 80 -j ACCEPT',
        'KUBE-SERVICES -m comment --comment "kubernetes service nodeports" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS',
      ],
      [],
    ),
    [],
  )
  const ipvs = parseSave(table('nat', ['KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT']))
  assert.deepEqual(savedFrontends(ipvs, 'IPv4'), [])
})
