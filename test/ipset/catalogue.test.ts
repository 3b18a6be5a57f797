/** The catalogue compared with kube-proxy's sets, which are listed here again by hand. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CATALOGUE, definitionOf, SET_ROLES, setName, type SetRole, temporaryName } from '../../src/ipset/catalogue.ts'
import { familyOfSet } from '../../src/ipset/diff.ts'

const TABLE = `
KUBE-LOOP-BACK KUBE-6-LOOP-BACK hash:ip,port,ip
KUBE-CLUSTER-IP KUBE-6-CLUSTER-IP hash:ip,port
KUBE-EXTERNAL-IP KUBE-6-EXTERNAL-IP hash:ip,port
KUBE-EXTERNAL-IP-LOCAL KUBE-6-EXTERNAL-IP-LOCAL hash:ip,port
KUBE-LOAD-BALANCER KUBE-6-LOAD-BALANCER hash:ip,port
KUBE-LOAD-BALANCER-FW KUBE-6-LOAD-BALANCER-FW hash:ip,port
KUBE-LOAD-BALANCER-LOCAL KUBE-6-LOAD-BALANCER-LOCAL hash:ip,port
KUBE-LOAD-BALANCER-SOURCE-IP KUBE-6-LOAD-BALANCER-SOURCE-IP hash:ip,port,ip
KUBE-LOAD-BALANCER-SOURCE-CIDR KUBE-6-LOAD-BALANCER-SOURCE-CID hash:ip,port,net
KUBE-NODE-PORT-TCP KUBE-6-NODE-PORT-TCP bitmap:port
KUBE-NODE-PORT-LOCAL-TCP KUBE-6-NODE-PORT-LOCAL-TCP bitmap:port
KUBE-NODE-PORT-UDP KUBE-6-NODE-PORT-UDP bitmap:port
KUBE-NODE-PORT-LOCAL-UDP KUBE-6-NODE-PORT-LOCAL-UDP bitmap:port
KUBE-NODE-PORT-SCTP-HASH KUBE-6-NODE-PORT-SCTP-HASH hash:ip,port
KUBE-NODE-PORT-LOCAL-SCTP-HASH KUBE-6-NODE-PORT-LOCAL-SCTP-HAS hash:ip,port
KUBE-HEALTH-CHECK-NODE-PORT KUBE-6-HEALTH-CHECK-NODE-PORT bitmap:port
KUBE-IPVS-IPS KUBE-6-IPVS-IPS hash:ip`

test('CATALOGUE has the 17 sets of each family', () => {
  const rows = TABLE.trim().split('\n')
  const ours = SET_ROLES.map((role) => {
    const [four, six] = [setName(role, 'IPv4'), setName(role, 'IPv6')]
    assert.equal(definitionOf(four)?.type, definitionOf(six)?.type)
    return `${four} ${six} ${definitionOf(four)?.type}`
  })
  assert.deepEqual(ours.sort(), rows.sort())
  assert.equal(CATALOGUE.length, 34)
  for (const { name } of CATALOGUE) assert.ok(name.length <= 31, name)
})

/** Pairs of roles: the first must be added before the second. */
const ORDER: readonly (readonly [SetRole, SetRole])[] = [
  ['EXTERNAL-IP-LOCAL', 'EXTERNAL-IP'],
  ['LOAD-BALANCER-LOCAL', 'LOAD-BALANCER'],
  ['NODE-PORT-LOCAL-TCP', 'NODE-PORT-TCP'],
  ['NODE-PORT-LOCAL-UDP', 'NODE-PORT-UDP'],
  ['NODE-PORT-LOCAL-SCTP-HASH', 'NODE-PORT-SCTP-HASH'],
  ['LOAD-BALANCER-SOURCE-IP', 'LOAD-BALANCER-FW'],
  ['LOAD-BALANCER-SOURCE-CIDR', 'LOAD-BALANCER-FW'],
  ['CLUSTER-IP', 'IPVS-IPS'],
  ['EXTERNAL-IP', 'IPVS-IPS'],
  ['EXTERNAL-IP-LOCAL', 'IPVS-IPS'],
  ['LOAD-BALANCER', 'IPVS-IPS'],
]

test('SET_ROLES has the order of additions', () => {
  for (const [first, second] of ORDER)
    assert.ok(SET_ROLES.indexOf(first) < SET_ROLES.indexOf(second), `${first} before ${second}`)
})

test('temporaryName is ours, is not too long, and differs for each set', () => {
  const names = CATALOGUE.map(temporaryName)
  assert.equal(new Set(names).size, 34)
  for (const [index, set] of CATALOGUE.entries()) {
    assert.ok((names[index]?.length ?? 99) <= 31)
    assert.equal(familyOfSet(names[index] ?? ''), set.family)
    assert.equal(definitionOf(names[index] ?? ''), undefined)
  }
  assert.equal(familyOfSet('KUBE-FOREIGN'), undefined)
})
