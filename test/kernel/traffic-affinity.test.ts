/**
 * Session affinity: a client address keeps its endpoint at each frontend until the timeout or the
 * end of the endpoint; without affinity, endpoints take turns. The kernel keeps an affinity while
 * it remembers one of its connections: for datagrams that time is one second here.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { familyOf, writeAddress } from '../../src/values/address.ts'
import { ADDRESSES, type Asked, Cluster, clientAddress, type Outcome } from '../support/cluster.ts'
import { type Workbench } from '../support/daemon.ts'
import { virtualServers } from '../support/kernel-state.ts'
import { eventually, until } from '../support/deadline.ts'
import type { Place } from '../support/net-namespace.ts'
import {
  bothFamilies,
  everyKind,
  frontend,
  inBothFamilies,
  KINDS,
  NEEDS_OF,
  PROTOCOLS,
  settled,
  VIRTUAL_ADDRESSES,
  type VirtualAddresses,
} from '../support/every-kind.ts'
import { Predictions } from '../support/predictions.ts'

const SHORT_SECONDS = 2
const TRIALS = 3

const affinity = (timeoutSeconds: number): Readonly<Record<string, unknown>> => ({
  sessionAffinity: 'ClientIP',
  sessionAffinityConfig: { clientIP: { timeoutSeconds } },
})

/**
 * Whether the kernel holds the affinity of a client at a virtual server: a connection from port 0.
 * Read without a process: to start one takes a slow kernel so long that the servers and clients of
 * the other tests, which are in this process, would answer too late.
 */
function remembers({ protocol, address, port }: Place): boolean {
  const at = `${asInProc(address)} ${port.toString(16).toUpperCase().padStart(4, '0')}`
  return readFileSync('/proc/thread-self/net/ip_vs_conn', 'utf8')
    .split('\n')
    .some((line) => {
      const [name = '', , from = '', to = '', toPort = ''] = line.trim().split(/\s+/)
      return name.toLowerCase() === protocol && from === '0000' && `${to} ${toPort}` === at
    })
}

/** As ip_vs_conn shows it: 0A600001, or all digits of IPv6. */
function asInProc(address: string): string {
  const family = familyOf(address)
  const bytes = Buffer.alloc(family === 'IPv4' ? 4 : 16)
  writeAddress(address, bytes, 0)
  const hex = bytes.toString('hex')
  return family === 'IPv4' ? hex.toUpperCase() : (hex.match(/.{4}/g) ?? []).join(':')
}

/**
 * Repeats a trial in which a request got no answer: on a busy machine a datagram may take longer
 * than udpTimeout, and then the kernel has forgotten its flow.
 */
async function answered<T>(answersOf: (outcome: T) => readonly Outcome[], trial: () => Promise<T>): Promise<T> {
  for (let number = 1; ; number++) {
    const outcome = await trial()
    if (!answersOf(outcome).includes('nothing') || number === TRIALS) return outcome
  }
}

/**
 * With routes one virtual IP of the cluster and one of outside are enough; node ports have neither
 * address nor route.
 */
const PART = {
  addresses: { kinds: KINDS, protocols: ['tcp', 'udp', 'sctp'], first: 1 },
  // The kernel remembers affinities to the virtual IPs of the Services before.
  routes: { kinds: ['ClusterIP', 'LoadBalancer'], protocols: ['tcp', 'udp'], first: 5 },
} as const satisfies Readonly<Record<VirtualAddresses, unknown>>

for (const virtualAddresses of VIRTUAL_ADDRESSES) {
  const { kinds, protocols, first } = PART[virtualAddresses]
  const [LONG, SHORT, NONE, LEAVING] = [first, first + 1, first + 2, first + 3]
  describe(`session affinity, virtual IPs as ${virtualAddresses}`, { concurrency: 1000 }, () => {
    let cluster: Cluster
    let bench: Workbench
    let daemon: ChildProcess
    const predictions = new Predictions()
    before(async () => {
      cluster = Cluster.start(PROTOCOLS)
      // Shorter than the shortest affinity, or the kernel keeps that for another minute.
      bench = bothFamilies({ udpTimeout: '1s' }, undefined, virtualAddresses)
      bench.write('long.yaml', ...everyKind(LONG, ['a', 'c'], affinity(10_800)))
      bench.write('short.yaml', ...everyKind(SHORT, ['a', 'c'], affinity(SHORT_SECONDS)))
      bench.write('none.yaml', ...everyKind(NONE, ['a', 'c']))
      bench.write('leaving.yaml', ...everyKind(LEAVING, ['a', 'c'], affinity(10_800)))
      daemon = bench.start()
      await settled(4)
    })
    after(async () => {
      await predictions.check()
      // The next daemon begins with an empty kernel.
      await bench.stop(daemon)
      assert.equal((await bench.command('cleanup')).code, 0)
      await bench.close()
      cluster.stop()
    })

    const inTurn = (place: Place, times: number, asked: Asked = {}): Promise<readonly Outcome[]> =>
      answered(
        (outcomes) => (place.protocol === 'udp' ? outcomes : []),
        () => cluster.askInTurn('client', place, times, asked),
      )

    for (const protocol of protocols)
      describe(protocol, NEEDS_OF[protocol], () => {
        for (const kind of kinds) {
          it(`${kind}: a client keeps its endpoint, and clients have different ones`, () =>
            inBothFamilies(async (family) => {
              const place = frontend(LONG, kind, family, protocol)
              const found = new Set<string>()
              for (const address of [0, 1, 2].map((index) => clientAddress(index)[family])) {
                const answers = await inTurn(place, 5, { address })
                const [first = 'nothing'] = answers
                assert.deepEqual(new Set(answers), new Set([first]), `${family} ${address}`)
                found.add(first)
                // Which of them a client has is known only to the kernel.
                predictions.only('client', place, ['a node', 'c node'], address)
              }
              assert.deepEqual([...found].sort(), ['a node', 'c node'], family)
            }))

          it(`${kind}: endpoints take turns without it`, () =>
            inBothFamilies(async (family) => {
              const place = frontend(NONE, kind, family, protocol)
              const [first, second, third] = await inTurn(place, 3)
              predictions.only('client', place, ['a node', 'c node'])
              assert.notEqual(first, second, family)
              assert.equal(first, third, family)
            }))
        }
      })

    for (const kind of kinds)
      it(`${kind}: ends after the timeout, and not before`, () =>
        inBothFamilies(async (family) => {
          const ask = (number: number) => cluster.askInTurn('client', frontend(number, kind, family, 'udp'), 2)
          const trial = async () => {
            const before = { short: await ask(SHORT), long: await ask(LONG) }
            await until(
              'the end of the affinity',
              () => !remembers(frontend(SHORT, kind, family, 'udp')),
              undefined,
              100,
            )
            assert.ok(remembers(frontend(LONG, kind, family, 'udp')))
            return { before, after: { short: await ask(SHORT), long: await ask(LONG) } }
          }
          const { before, after } = await answered(
            (all) => [all.before, all.after].flatMap(({ short, long }) => [...short, ...long]),
            trial,
          )
          assert.equal(before.short[0], before.short[1], family)
          assert.equal(after.short[0], after.short[1], family)
          assert.notEqual(before.short[0], after.short[0], family)
          assert.equal(before.long[0], after.long[0], family)
        }))

    it('ends with the endpoint, and no client is refused', async () => {
      const places = kinds.flatMap((kind) => (['tcp', 'udp'] as const).map((protocol) => [kind, protocol] as const))
      const ask = async (): Promise<string[]> => {
        const asked = places.flatMap(([kind, protocol]) =>
          (['IPv4', 'IPv6'] as const).map((family) => inTurn(frontend(LEAVING, kind, family, protocol), 1)),
        )
        return (await Promise.all(asked)).flat().map((outcome) => outcome.replace(' node', ''))
      }
      const before = await ask()
      assert.deepEqual(await ask(), before)
      assert.ok(before.includes('a'), 'a client had the endpoint that is removed')
      bench.write('leaving.yaml', ...everyKind(LEAVING, ['c'], affinity(10_800)))
      await eventually(() => {
        const ofLeaving = new RegExp(`[.:]${LEAVING}\\]?:80 |:3000${LEAVING} `)
        const servers = virtualServers().filter((line) => ofLeaving.test(line) && line.endsWith(' -w 1'))
        assert.ok(!servers.some((line) => line.includes(ADDRESSES.a.IPv4) || line.includes(ADDRESSES.a.IPv6)))
      })
      assert.deepEqual(new Set(await ask()), new Set(['c']))
    })
  })
}
