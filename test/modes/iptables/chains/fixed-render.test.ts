/** The last rules of nat KUBE-SERVICES, which lead to node ports. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loopbackRefusal, nodePortJumps } from '../../../../src/modes/iptables/chains/fixed-render.ts'

const NOTE = '-m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain"'

test('nodePortJumps has a rule for every address of nodePortAddresses except loopback ones that are turned off', () => {
  const places = ['10.0.2.15', '127.0.0.1']
  const jump = (address: string): string => `-d ${address} ${NOTE} -j KUBE-NODEPORTS`
  assert.deepEqual(nodePortJumps(places, { family: 'IPv4', localhostNodePorts: true }), [
    jump('10.0.2.15/32'),
    jump('127.0.0.1/32'),
  ])
  assert.deepEqual(nodePortJumps(places, { family: 'IPv4', localhostNodePorts: false }), [jump('10.0.2.15/32')])
  for (const localhostNodePorts of [true, false])
    assert.deepEqual(nodePortJumps(['2001:db8::1', '::1'], { family: 'IPv6', localhostNodePorts }), [
      jump('2001:db8::1/128'),
    ])
})

test('loopbackRefusal gives the reason in the words of kube-proxy', () => {
  const rows: readonly (readonly [address: string, localhostNodePorts: boolean, reason: RegExp | undefined])[] = [
    ['10.0.2.15', false, undefined],
    ['127.0.0.1', true, undefined],
    ['127.1.2.3', false, /localhost but --iptables-localhost-nodeports=false was passed$/],
    ['::1', true, /localhost but localhost NodePorts are not supported on IPv6$/],
  ]
  for (const [address, localhostNodePorts, reason] of rows) {
    const said = loopbackRefusal(address, localhostNodePorts)
    if (reason === undefined) assert.equal(said, undefined)
    else assert.match(said ?? '', reason)
  }
})
