/**
 * The daemon against an API server that authorizes by the rules of the chart's ClusterRole and
 * refuses everything else: no request of the daemon is refused, and each part of the rules is used.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { parse } from 'yaml'
import { isAllowed, type PolicyRule } from '../../dev/api-server/authorizer.ts'
import { ApiServer, type StreamingList } from '../../dev/api-server/server.ts'
import { Workbench } from '../support/daemon.ts'
import { node, service, slice } from '../support/manifests.ts'
import { freshNode, virtualServers } from '../support/kernel-state.ts'
import { eventually, until } from '../support/deadline.ts'

const TEMPLATE = readFileSync(new URL('../../helm/templates/rbac.yaml', import.meta.url), 'utf8')
const [, RULES_TEXT = ''] = /^(rules:\n[^]*?)^---$/m.exec(TEMPLATE) ?? []
const { rules: RULES } = parse(RULES_TEXT) as { readonly rules: readonly PolicyRule[] }

/** Each verb on each resource by itself. */
const PARTS: readonly PolicyRule[] = RULES.flatMap(({ apiGroups, resources, verbs }) =>
  apiGroups.flatMap((group) =>
    resources.flatMap((resource) =>
      verbs.map((verb) => ({ apiGroups: [group], resources: [resource], verbs: [verb] })),
    ),
  ),
)
const nameOf = ({ apiGroups, resources, verbs }: PolicyRule): string =>
  `${verbs.join()} ${resources.join()} ${apiGroups.join()}`

const WEB = ['-A -t 10.96.0.1:80 -s rr', '-a -t 10.96.0.1:80 -r 10.244.0.1:8080 -m -w 1']
const HEALTH_PORTS = [31_998, 31_999] as const

let server: ApiServer
let bench: Workbench
let taken: readonly Server[]

beforeEach(async () => {
  freshNode()
  server = new ApiServer()
  server.authorizer.rules = RULES
  server.store.put('nodes', node(['10.0.2.15']))
  server.store.put('services', service('web', { clusterIP: '10.96.0.1' }))
  server.store.put('endpointslices', slice('web', ['10.244.0.1']))
  bench = new Workbench({}, { conntrack: { maxPerCore: 0 }, nodePortAddresses: ['10.0.2.0/24'] })
  // Each attempt to open such a port at the node's address fails, and is an occurrence of one
  // Event: the first creates it, the second changes it.
  taken = HEALTH_PORTS.map((port) => createServer().listen(port, '0.0.0.0'))
  await Promise.all(taken.map((one) => once(one, 'listening')))
})
afterEach(async () => {
  for (const one of taken) one.close()
  await bench.close()
  await server.close()
})

const start = async () => bench.startOnApi(bench.kubeconfig(await server.listen()))
const served = () => eventually(() => assert.deepEqual(virtualServers(), WEB.toSorted()), 40_000)

function addHealthCheck(healthCheckNodePort: number): void {
  const spec = {
    clusterIP: `10.96.1.${healthCheckNodePort - 31_900}`,
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    healthCheckNodePort,
  }
  server.store.put(
    'services',
    service(`checked-${healthCheckNodePort}`, spec, {
      status: { loadBalancer: { ingress: [{ ip: `198.51.100.${healthCheckNodePort - 31_900}` }] } },
    }),
  )
}

/** Everything that makes the daemon send a request of its own kind. */
async function useEverything(streamingList: StreamingList): Promise<void> {
  server.streamingList = streamingList
  const child = await start()
  await served()
  addHealthCheck(HEALTH_PORTS[0])
  await until('an Event is repeated', () => server.events.writes.some(({ request }) => request === 'patch'), 40_000)
  // The daemon starts new watches, and lists again when the server does not remember where they ended.
  const before = server.requests.length
  server.endWatches()
  await until('a new request of each kind', () => server.requests.length >= before + 3, 40_000)
  await bench.stop(child)
}

describe("the chart's ClusterRole", () => {
  it('allows every request of the daemon, and nothing that it does not request', async () => {
    // A server without streaming lists is asked for a list, too.
    await useEverything('forbidden')
    assert.deepEqual(server.authorizer.refused, [])
    for (const part of PARTS)
      assert.ok(
        server.authorizer.requested.some((action) => isAllowed([part], action)),
        `${nameOf(part)} is never used`,
      )
  })

  it('allows every request to a server with streaming lists', async () => {
    await useEverything('works')
    assert.deepEqual(server.authorizer.refused, [])
  })

  for (const part of PARTS)
    it(`is needed for: ${nameOf(part)}`, async () => {
      server.authorizer.rules = PARTS.filter((other) => other !== part)
      server.streamingList = 'forbidden'
      addHealthCheck(HEALTH_PORTS[0])
      await start()
      await until('a refusal', () => server.authorizer.refused.length > 0, 40_000)
      for (const action of server.authorizer.refused) assert.ok(isAllowed([part], action), JSON.stringify(action))
      const reason = /is forbidden: User \\?"system:serviceaccount:kube-system:kube-ipvs\\?" cannot/
      if (part.resources.includes('events')) {
        // Events are optional: one warning, and everything else works.
        await eventually(() => assert.ok(virtualServers().includes('-A -t 10.96.0.1:80 -s rr')), 40_000)
        const warnings = () => bench.log.split('\n').filter((line) => /^W.*"The API server refuses Events/.test(line))
        await until('the warning', () => warnings().length > 0)
        const seen = server.authorizer.refused.length
        addHealthCheck(HEALTH_PORTS[1])
        await until('another refusal', () => server.authorizer.refused.length > seen, 40_000)
        assert.equal(warnings().length, 1, bench.log)
        assert.match(warnings()[0] ?? '', reason)
        return
      }
      await eventually(() => assert.match(bench.log, /^E.*"Failed to watch" err="failed to (list|watch) .*/m))
      await eventually(() => assert.match(bench.log, reason))
      // Nothing is removed that a source did not list, and the daemon waits for the right.
      server.authorizer.rules = RULES
      await eventually(() => assert.ok(virtualServers().includes('-A -t 10.96.0.1:80 -s rr')), 40_000)
    })

  it('has neither wildcards nor the verbs that read single objects or delete', () => {
    for (const { apiGroups, resources, verbs } of RULES) {
      assert.ok(![...apiGroups, ...resources, ...verbs].includes('*'))
      for (const verb of verbs) assert.ok(['list', 'watch', 'create', 'patch'].includes(verb), verb)
    }
  })
})
