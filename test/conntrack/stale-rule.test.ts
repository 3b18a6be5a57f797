/** Which flows are stale: rows, and the recorded cases. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { filterFor, servingEndpoints, type Suspects, staleRule } from '../../src/conntrack/stale-rule.ts'
import type { Flow } from '../../src/conntrack/types.ts'
import { recorded, walkCase } from '../support/recorded-cases.ts'
import { endpoint, flowFrontend, flowOf, parseFlow } from './flows.ts'

const SUSPECTS: Suspects = new Map([
  [
    '10.96.0.10:53/udp',
    flowFrontend(
      endpoint('10.244.0.53:5353'),
      endpoint('10.244.1.53:5353', { ready: false, terminating: true }),
      endpoint('10.244.2.53:5353', { ready: false, serving: false }),
      // Services that publish addresses that are not ready have such endpoints.
      endpoint('10.244.3.53:5353', { serving: false }),
      endpoint('10.244.4.53:5353', { serving: false, terminating: true }),
    ),
  ],
  ['10.96.0.11:53/udp', flowFrontend()],
  ['10.96.0.12:53/udp', undefined],
  ['[fd00::a]:53/udp', flowFrontend(endpoint('[fd01::53]:5353'))],
])

describe('staleRule', () => {
  const isStale = staleRule(SUSPECTS)
  for (const [what, flow, expected] of [
    ['to a real server', flowOf('10.96.0.10:53', '10.244.0.53:5353'), false],
    ['to an endpoint that serves until its end', flowOf('10.96.0.10:53', '10.244.1.53:5353'), false],
    ['to an endpoint that no longer serves', flowOf('10.96.0.10:53', '10.244.2.53:5353'), true],
    ['to a real server that is ready and does not serve', flowOf('10.96.0.10:53', '10.244.3.53:5353'), true],
    ['to one that is at its end', flowOf('10.96.0.10:53', '10.244.4.53:5353'), true],
    ['to an endpoint that is gone', flowOf('10.96.0.10:53', '10.244.9.9:5353'), true],
    ['to another port of an endpoint', flowOf('10.96.0.10:53', '10.244.0.53:5354'), true],
    ['to nobody, from before there were endpoints', flowOf('10.96.0.10:53', '10.96.0.10:53'), true],
    ['to another port of the address', flowOf('10.96.0.10:54', '10.244.9.9:5353'), false],
    ['of another protocol', flowOf('10.96.0.10:53', '10.244.9.9:5353', { protocol: 'tcp' }), false],
    ['to a frontend without endpoints', flowOf('10.96.0.11:53', '10.244.0.53:5353'), true],
    ['to a frontend that is gone', flowOf('10.96.0.12:53', '10.244.0.53:5353'), true],
    ['to its port alone', flowOf('10.96.0.12:53', '10.96.0.12:5353'), true],
    ['to whoever has the address of a frontend that is gone', flowOf('10.96.0.12:53', '10.96.0.12:53'), false],
    ['to a real server of IPv6', flowOf('[fd00::a]:53', '[fd01::53]:5353'), false],
    ['to an endpoint of IPv6 that is gone', flowOf('[fd00::a]:53', '[fd01::54]:5353'), true],
    ['to a frontend that nobody suspects', flowOf('10.96.0.13:53', '10.244.9.9:5353'), false],
  ] as const satisfies readonly (readonly [string, Flow, boolean])[])
    it(`${what}: ${expected}`, () => assert.equal(isStale(flow), expected))

  for (const name of ['conntrack-udp-endpoint-removed', 'conntrack-first-sync'])
    it(`keeps the flows that kube-proxy kept in ${name}, and flows to other addresses`, () => {
      // Both cases create the flows of this step; one creates them before the first start.
      const flows = recorded('conntrack-udp-endpoint-removed', 2, 'conntrack.txt').trim().split('\n')
      // kube-proxy treats every destination as a node port (deviation 29).
      const elsewhere = flows.filter((line) => line.includes('dst=192.0.2.9 sport=40005'))
      assert.deepEqual([flows.length, elsewhere.length], [7, 1])
      let left: string[] = []
      let wanted: string[] = []
      walkCase(name, ({ frontends, lines, name: step }) => {
        if (!step.endsWith('/3') && name !== 'conntrack-first-sync') return
        const isStaleNow = staleRule(new Map(Array.from(frontends, ([key, { servicePort }]) => [key, servicePort])))
        left = flows.filter((line) => !isStaleNow(parseFlow(line)))
        wanted = [...lines('conntrack.txt'), ...elsewhere].sort()
      })
      assert.deepEqual(left, wanted)
    })
})

describe('servingEndpoints', () => {
  it('has every serving endpoint, and no other', () => {
    const frontend = flowFrontend(
      endpoint('10.244.0.1:1', { serving: false }),
      endpoint('10.244.0.2:1', { ready: false, terminating: true }),
      endpoint('10.244.0.3:1'),
    )
    assert.deepEqual([...servingEndpoints(frontend)], ['10.244.0.2:1', '10.244.0.3:1'])
  })
})

describe('filterFor', () => {
  const filter = (...keys: string[]) => filterFor(new Map(keys.map((key) => [key, undefined])))
  for (const [keys, expected] of [
    [['10.96.0.10:53/udp'], { family: 'IPv4', protocol: 'udp', destination: '10.96.0.10', destinationPort: 53 }],
    [['[fd00::a]:53/udp'], { family: 'IPv6', protocol: 'udp', destination: 'fd00::a', destinationPort: 53 }],
    [['10.96.0.10:53/udp', '10.96.0.11:53/udp'], { family: 'IPv4', protocol: 'udp', destinationPort: 53 }],
    [['10.96.0.10:53/udp', '10.96.0.10:54/udp'], { family: 'IPv4', protocol: 'udp', destination: '10.96.0.10' }],
    [['10.96.0.10:53/udp', '10.96.0.11:54/udp', '10.96.0.10:53/udp'], { family: 'IPv4', protocol: 'udp' }],
  ] as const)
    it(keys.join(), () => assert.deepEqual(filter(...keys), expected))
})
