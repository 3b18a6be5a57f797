/** Single changes beside a burst: which Services, and what becomes of what the program publishes. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { besideOf, probedServices, type Sent } from '../../dev/bench/beside-burst.ts'

const sentAt = (service: number, address: string, atMs: number): Sent => ({
  service,
  change: {
    atMs,
    added: `10.128.0.${service}:8080`,
    expected: [{ port: `bench-0/service-${service}:http`, address, endpoints: new Set() }],
  },
})
const addition = (address: string, real: string): string => `ipvsadm -a -t ${address}:80 -r ${real} -m -w 1`

describe('probedServices', () => {
  it('never names a Service of the burst, and any other one', () => {
    const services = probedServices(100)
    const seen = new Set(Array.from({ length: 1_000 }, () => services.next().value))
    assert.equal([...seen].filter((service) => service % 10 === 0 || service >= 100).length, 0)
    assert.equal(seen.size, 90)
  })

  it('names the only Service there is', () => assert.equal(probedServices(1).next().value, 0))
})

describe('besideOf', () => {
  const sent = [sentAt(1, '10.96.0.11', 90), sentAt(2, '10.96.0.12', 120), sentAt(3, '10.96.0.13', 300)]
  const reading = {
    eventLoopMaxMs: 4.04,
    arrivals: [
      ['bench-0/service-2-x7k2p', 60],
      ['bench-0/service-2-x7k2p', 121],
      ['bench-0/service-3-x7k2p', 301],
    ],
    writes: [
      // The same address was added before, as another change wrote it.
      [addition('10.96.0.12', '10.128.0.2:8080'), 80],
      [addition('10.96.0.11', '10.128.0.1:8080'), 92],
      [addition('10.96.0.20', '10.128.9.9:8080'), 123],
      [addition('10.96.0.12', '10.128.0.2:8080'), 123.5],
      [addition('10.96.0.30', '10.128.9.8:8080'), 160],
      ['ipvsadm -d -t 10.96.0.30:80 -r 10.128.1.1:8080', 170],
      [addition('10.96.0.13', '10.128.0.3:8080'), 303],
    ],
  } as const

  it('times the changes from their arrival and from their write to the command that adds their endpoint', () => {
    const { changes, arrivalP50Ms, arrivalMaxMs, writeP50Ms, writeMaxMs, eventLoopMaxMs, workMs } = besideOf(
      'nothing',
      sent,
      undefined,
      reading,
    )
    assert.deepEqual([changes, arrivalP50Ms, arrivalMaxMs], [3, 2, 2.5])
    assert.deepEqual([writeP50Ms, writeMaxMs, eventLoopMaxMs, workMs], [3, 3.5, 4, null])
  })

  it('counts only changes that were written while the burst was added, which says how long it took', () => {
    const { changes, writeP50Ms, workMs } = besideOf('burst', sent, 100, reading)
    assert.deepEqual([changes, writeP50Ms, workMs], [1, 3.5, 60])
  })

  it('has no times of a program that publishes nothing', () => {
    const { changes, arrivalP50Ms, writeP99Ms } = besideOf('nothing', sent, undefined, {
      eventLoopMaxMs: null,
      arrivals: [],
      writes: [],
    })
    assert.deepEqual([changes, arrivalP50Ms, writeP99Ms], [0, null, null])
  })
})
