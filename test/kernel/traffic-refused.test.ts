/**
 * Traffic that is not answered: virtual servers without endpoints, other ports of a VIP and pings
 * to it are refused; traffic from outside that external policy Local sends to another node is lost,
 * because the answer does not return through this node. All requests run at the same time, because
 * some refusals take long. What `explain` predicts is compared with each outcome.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Protocol } from '../../src/values/protocol.ts'
import { ADDRESSES, Cluster, type From, NODE, type Outcome, REFUSAL_MS } from '../support/cluster.ts'
import { type Workbench } from '../support/daemon.ts'
import { virtualServers } from '../support/kernel-state.ts'
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
} from '../support/every-kind.ts'
import type { Place } from '../support/net-namespace.ts'
import { Predictions } from '../support/predictions.ts'

const EMPTY = 1
const REMOTE = 2
/** The port at which the node itself answers, at all its addresses: a VIP must not lead there. */
const NODES_PORT = 81
/**
 * The port of a server of SCTP at the node's first address only. One at all addresses names each of
 * them to its client, which sends to each: the refusal of a VIP could come before the answer.
 */
const NODES_SCTP_PORT = 82
const PROTOCOL_NAMES = ['tcp', 'udp', 'sctp'] as const
/** A busy machine may lose a refusal: TCP and SCTP then send again; for the other protocols the test does. */
const DATAGRAMS = 3
const ASKING = ['client', 'other', 'b', 'node'] as const
/** The kernel drops a datagram of this node where it would send a refusal to itself, and reports that at once. */
const refusalOf = (from: From, protocol: Protocol): string =>
  from === 'node' && protocol === 'udp' ? 'EPERM' : 'refused'

/** The outcome within the time that a refusal may take, which must have been predicted. */
async function patiently(cluster: Cluster, from: From, to: Place, predictions: Predictions): Promise<Outcome> {
  const outcome = await askPatiently(cluster, from, to)
  predictions.note(from, to, undefined, outcome)
  return outcome
}

async function askPatiently(cluster: Cluster, from: From, to: Place): Promise<Outcome> {
  if (to.protocol === 'tcp' || to.protocol === 'sctp') return cluster.ask(from, to, { withinMs: REFUSAL_MS })
  let outcome: Outcome = 'nothing'
  for (let sent = 0; sent < DATAGRAMS && outcome === 'nothing'; sent++)
    outcome = await cluster.ask(from, to, { withinMs: REFUSAL_MS / DATAGRAMS })
  return outcome
}

for (const virtualAddresses of VIRTUAL_ADDRESSES)
  describe(`traffic to virtual IPs as ${virtualAddresses}`, { concurrency: 1000 }, () => {
    let cluster: Cluster
    let bench: Workbench
    let predictions: Predictions
    before(async () => {
      cluster = Cluster.start(PROTOCOLS)
      for (const protocol of PROTOCOLS) cluster.serve('node', { protocol, address: '::', port: NODES_PORT })
      if (NEEDS_OF.sctp.skip === false)
        for (const address of Object.values(NODE))
          cluster.serve('node', { protocol: 'sctp', address, port: NODES_SCTP_PORT })
      bench = bothFamilies({}, undefined, virtualAddresses)
      bench.write('empty.yaml', ...everyKind(EMPTY, []))
      const local = { internalTrafficPolicy: 'Local', externalTrafficPolicy: 'Local' }
      bench.write('remote.yaml', ...everyKind(REMOTE, ['c'], local))
      bench.start()
      await settled(2, undefined, virtualAddresses)
      assert.ok(virtualServers().some((line) => line.includes(`-r ${ADDRESSES.c.IPv4}:`)))
      predictions = new Predictions()
    })
    after(async () => {
      await predictions.check()
      await bench.close()
      cluster.stop()
    })

    for (const protocol of PROTOCOL_NAMES)
      for (const kind of KINDS)
        for (const from of ASKING)
          it(`${protocol} of ${from} to ${kind} without endpoints is refused`, NEEDS_OF[protocol], () =>
            inBothFamilies(async (family) => {
              const outcome = await patiently(cluster, from, frontend(EMPTY, kind, family, protocol), predictions)
              assert.equal(outcome, refusalOf(from, protocol), family)
            }),
          )

    for (const protocol of [...PROTOCOL_NAMES, 'ping'] as const) {
      it(`${protocol} to the node itself is answered`, NEEDS_OF[protocol], () =>
        inBothFamilies(async (family) => {
          const port = protocol === 'sctp' ? NODES_SCTP_PORT : NODES_PORT
          const place = { protocol, address: NODE[family], port }
          const outcome = await cluster.ask('client', place)
          predictions.note('client', place, undefined, outcome)
          assert.match(outcome, /^(node own|echo)$/, family)
        }),
      )

      for (const kind of ['ClusterIP', 'ExternalIP', 'LoadBalancer'] as const)
        for (const from of ASKING)
          it(`${protocol} of ${from} to another port of ${kind} is refused`, NEEDS_OF[protocol], () =>
            inBothFamilies(async (family) => {
              const { address } = frontend(REMOTE, kind, family, 'tcp')
              const place = { protocol, address, port: NODES_PORT }
              assert.equal(await patiently(cluster, from, place, predictions), 'refused', family)
            }),
          )
    }

    for (const protocol of PROTOCOL_NAMES)
      describe(`${protocol} with policies Local and no local endpoint`, NEEDS_OF[protocol], () => {
        for (const [from, external] of [
          ['client', 'nothing'],
          ['other', 'nothing'],
          ['b', 'c own'],
          ['node', 'c own'],
        ] as const)
          for (const kind of KINDS) {
            const expected = kind === 'ClusterIP' ? refusalOf(from, protocol) : external
            it(`from ${from} at ${kind}: ${expected}`, () =>
              inBothFamilies(async (family) => {
                const place = frontend(REMOTE, kind, family, protocol)
                // The endpoint sees the virtual IP, for which its own node would answer if it had a proxy.
                const isVirtual = virtualAddresses === 'addresses' && (kind === 'ExternalIP' || kind === 'LoadBalancer')
                if (from === 'node' && isVirtual) predictions.unsure(from, place)
                assert.equal(await patiently(cluster, from, place, predictions), expected, family)
                // It did arrive, and the endpoint sees the client's address.
                if (expected === 'nothing' && from === 'client' && protocol === 'udp')
                  assert.ok(cluster.seen.has(`c ${ADDRESSES[from][family]}`), family)
              }))
          }
      })
  })
