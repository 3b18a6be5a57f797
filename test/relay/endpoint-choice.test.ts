/** Which endpoint a relayed connection gets, with a chance and a clock of the test. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { EndpointChoice } from '../../src/relay/endpoint-choice.ts'
import type { RelayedPort } from '../../src/relay/wanted-relays.ts'
import type { Endpoint } from '../../src/service/endpoints.ts'
import { endpointsAt } from '../support/frontends.ts'

const portOf = (addresses: readonly string[], change: Partial<RelayedPort> = {}): RelayedPort => ({
  family: 'IPv4',
  port: 30080,
  namespace: 'demo',
  name: 'web',
  endpoints: endpointsAt(addresses),
  weights: undefined,
  affinityMs: 0,
  ...change,
})

/** A chance that has `steps` equal values in turn. */
function evenly(steps: number): () => number {
  let at = 0
  return () => (at++ % steps) / steps
}

/** How often each endpoint is chosen in `count` connections. */
function counts(choice: EndpointChoice, port: RelayedPort, count: number): Record<string, number> {
  const found: Record<string, number> = {}
  for (let index = 0; index < count; index++) {
    const address = choice.next(port, [])?.address ?? 'none'
    found[address] = (found[address] ?? 0) + 1
  }
  return found
}

describe('EndpointChoice', () => {
  it('draws each endpoint alike, or by its weight', () => {
    const choice = new EndpointChoice(evenly(600), () => 0)
    assert.deepEqual(counts(choice, portOf(['10.1.0.1', '10.1.0.2', '10.1.0.3']), 600), {
      '10.1.0.1': 200,
      '10.1.0.2': 200,
      '10.1.0.3': 200,
    })
    assert.deepEqual(counts(choice, portOf(['10.1.0.1', '10.1.0.2'], { weights: [5, 1] }), 600), {
      '10.1.0.1': 500,
      '10.1.0.2': 100,
    })
    assert.deepEqual(counts(choice, portOf([]), 1), { none: 1 })
  })

  it('never returns an endpoint that was tried, and ends when all were', () => {
    for (const change of [{}, { weights: [3, 1, 2] }, { affinityMs: 1000 }]) {
      const port = portOf(['10.1.0.1', '10.1.0.2', '10.1.0.3'], change)
      for (const chance of [0, 0.4, 0.999_999]) {
        const choice = new EndpointChoice(
          () => chance,
          () => 0,
        )
        const tried: Endpoint[] = []
        for (let next = choice.next(port, tried); next !== undefined; next = choice.next(port, tried)) tried.push(next)
        assert.deepEqual(tried.map(({ address }) => address).sort(), ['10.1.0.1', '10.1.0.2', '10.1.0.3'])
      }
    }
  })

  it('with affinity keeps the endpoint until it was not used for the timeout', () => {
    let nowMs = 0
    const choice = new EndpointChoice(evenly(2), () => nowMs)
    const port = portOf(['10.1.0.1', '10.1.0.2'], { affinityMs: 1000 })
    const next = (): string | undefined => choice.next(port, [])?.address
    assert.equal(next(), '10.1.0.1')
    for (let index = 0; index < 5; index++) {
      nowMs += 1000
      assert.equal(next(), '10.1.0.1')
    }
    nowMs += 1001
    assert.equal(next(), '10.1.0.2')
    assert.equal(next(), '10.1.0.2')
  })

  it('with affinity takes another endpoint when that one is gone or did not answer, and stays there', () => {
    const choice = new EndpointChoice(evenly(2), () => 0)
    const [one, two] = endpointsAt(['10.1.0.1', '10.1.0.2'])
    assert.ok(one && two)
    const both = portOf([], { endpoints: [one, two], affinityMs: 1000 })
    assert.equal(choice.next(both, []), one)
    assert.equal(choice.next(both, [one]), two)
    assert.equal(choice.next(both, []), two)
    assert.equal(choice.next({ ...both, endpoints: [one] }, []), one)
    assert.equal(choice.next(both, []), one)
  })
})
