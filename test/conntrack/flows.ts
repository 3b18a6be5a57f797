/** Flows and endpoints for tests, from text. */
import assert from 'node:assert/strict'
import type { FlowFrontend } from '../../src/conntrack/stale-rule.ts'
import type { Flow } from '../../src/conntrack/types.ts'
import type { Endpoint } from '../../src/service/endpoints.ts'
import type { SliceEndpoint } from '../../src/service/objects.ts'
import { familyOf, parseEndpoint } from '../../src/values/address.ts'
import { endpoint as sliceEndpoint } from '../support/objects.ts'

/** An endpoint at `ip:port`; ready and serving by default. */
export function endpoint(place: string, more: Partial<SliceEndpoint> = {}): Endpoint {
  const { address, port } = parseEndpoint(place)
  return {
    address,
    port,
    source: sliceEndpoint({ address, ...more }),
  }
}

/** A frontend with these endpoints. */
export function flowFrontend(...candidates: readonly Endpoint[]): FlowFrontend {
  return { candidates }
}

/** A UDP flow of some client to `to`, answered by `from`, both `ip:port`. */
export function flowOf(to: string, from: string, more: Partial<Flow> = {}): Flow {
  const destination = parseEndpoint(to)
  const answers = parseEndpoint(from)
  const family = familyOf(destination.address)
  const client = family === 'IPv4' ? '10.244.0.77' : 'fd00:10:244::77'
  return {
    family,
    protocol: 'udp',
    original: {
      source: client,
      sourcePort: 40_001,
      destination: destination.address,
      destinationPort: destination.port,
      zone: 0,
    },
    reply: {
      source: answers.address,
      sourcePort: answers.port,
      destination: client,
      destinationPort: 40_001,
      zone: 0,
    },
    zone: 0,
    id: 1,
    ...more,
  }
}

/** A line of a recorded conntrack.txt. */
export function parseFlow(line: string): Flow {
  const addresses = [...line.matchAll(/\b(?:src|dst)=(\S+)/g)].map(([, text]) => text ?? '')
  const ports = [...line.matchAll(/\b[sd]port=(\d+)/g)].map(([, text]) => Number(text))
  const [source = '', destination = '', replySource = '', replyDestination = ''] = addresses
  const [sourcePort = 0, destinationPort = 0, replySourcePort = 0, replyDestinationPort = 0] = ports
  assert.deepEqual([line.slice(0, 4), addresses.length, ports.length], ['udp ', 4, 4], line)
  return {
    family: familyOf(source),
    protocol: 'udp',
    original: { source, sourcePort, destination, destinationPort, zone: 0 },
    reply: {
      source: replySource,
      sourcePort: replySourcePort,
      destination: replyDestination,
      destinationPort: replyDestinationPort,
      zone: 0,
    },
    zone: 0,
    id: sourcePort,
  }
}
