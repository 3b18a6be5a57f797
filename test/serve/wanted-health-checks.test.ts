/**
 * Which health check ports are wanted. The tests pass Services through DesiredFrontends, so
 * WantedHealthChecks gets the same calls as in the daemon.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { formatHealthCheck } from '../../src/serve/health-answers.ts'
import { type HealthCheckChange, WantedHealthChecks } from '../../src/serve/wanted-health-checks.ts'
import type { NodeContext } from '../../src/service/node-context.ts'
import type { Service, SliceEndpoint } from '../../src/service/objects.ts'
import { DesiredFrontends } from '../../src/sync/desired-frontends.ts'
import { IP_FAMILIES, type IpFamily } from '../../src/values/protocol.ts'
import { endpoint, service, servicePort, slice } from '../support/objects.ts'
import { recordedCases, walkCase } from '../support/recorded-cases.ts'

const NODE: NodeContext = {
  nodeName: 'node0',
  zone: '',
  nodeIps: { IPv4: '10.0.2.15' },
  localAddresses: new Set(),
  nodePortAddresses: { IPv4: [], IPv6: [] },
}

const web = (change: Partial<Service> = {}): Service =>
  service({
    createdAtMs: 1000,
    clusterIps: { IPv4: '10.96.10.1' },
    ports: [servicePort({ name: 'http', port: 80, nodePort: 30080 })],
    loadBalancerVips: ['203.0.113.10'],
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: 32001,
    ...change,
  })

const here = (address: string, change: Partial<SliceEndpoint> = {}): SliceEndpoint =>
  endpoint({ address, nodeName: 'node0', ...change })

/** `IPv4 32001 demo/web 2`, or `IPv4 32001 gone` */
function text({ key, check }: HealthCheckChange): string {
  return check === undefined ? `${key} gone` : `${key} ${check.namespace}/${check.name} ${check.localEndpoints}`
}

function newWorld(families: readonly IpFamily[] = IP_FAMILIES) {
  const desired = new DesiredFrontends(NODE)
  const wanted = new WantedHealthChecks(families)
  const changes = (): string[] => {
    desired.flushAll({ frontend: wanted.frontend.bind(wanted), problems: () => {} })
    return wanted.changes().map(text).sort()
  }
  return {
    changes,
    put: (value: Service, key = `${value.namespace}/${value.name}`): string[] => {
      desired.apply({ kind: 'services', key, value })
      return changes()
    },
    remove: (key: string): string[] => {
      desired.apply({ kind: 'services', key, value: undefined })
      return changes()
    },
    endpoints: (...endpoints: readonly SliceEndpoint[]): string[] => {
      desired.apply({ kind: 'endpointslices', key: 'demo/web-1', value: slice({ endpoints }) })
      return changes()
    },
  }
}

describe('WantedHealthChecks', () => {
  it('follows the number of ready endpoints on this node', () => {
    const { put, endpoints, changes } = newWorld()
    assert.deepEqual(put(web()), ['IPv4 32001 demo/web 0'])
    assert.deepEqual(endpoints(here('10.1.0.1'), here('10.1.0.2')), ['IPv4 32001 demo/web 2'])
    assert.deepEqual(changes(), [])
    assert.deepEqual(endpoints(here('10.1.0.1'), here('10.1.0.2'), here('10.2.0.1', { nodeName: 'node1' })), [])
    assert.deepEqual(endpoints(here('10.1.0.2')), ['IPv4 32001 demo/web 1'])
  })

  it('counts 0 when the last endpoint terminates, although that endpoint still gets traffic', () => {
    const { put, endpoints } = newWorld()
    put(web())
    endpoints(here('10.1.0.1'))
    const terminating = here('10.1.0.1', { ready: false, terminating: true })
    assert.deepEqual(endpoints(terminating), ['IPv4 32001 demo/web 0'], 'the real server is the same before and after')
  })

  it('follows a changed port, and drops it with the policy or the Service', () => {
    const { put, remove } = newWorld()
    put(web())
    assert.deepEqual(put(web({ healthCheckNodePort: 32002 })), ['IPv4 32001 gone', 'IPv4 32002 demo/web 0'])
    assert.deepEqual(put(web({ healthCheckNodePort: 0, externalTrafficPolicy: 'Cluster' })), ['IPv4 32002 gone'])
    assert.deepEqual(put(web()), ['IPv4 32001 demo/web 0'])
    assert.deepEqual(remove('demo/web'), ['IPv4 32001 gone'])
    assert.deepEqual(remove('demo/web'), [])
  })

  it('has one check for each served IP family of the Service', () => {
    const dual = web({ clusterIps: { IPv4: '10.96.10.1', IPv6: 'fd00:10:96::1' } })
    assert.deepEqual(newWorld().put(dual), ['IPv4 32001 demo/web 0', 'IPv6 32001 demo/web 0'])
    assert.deepEqual(newWorld(['IPv6']).put(dual), ['IPv6 32001 demo/web 0'])
    const { put } = newWorld()
    put(dual)
    assert.deepEqual(put(web()), ['IPv6 32001 gone'])
  })

  it('keeps a check as long as the Service has any frontend', () => {
    const { put } = newWorld()
    put(web({ ports: [] }))
    assert.deepEqual(put(web()), ['IPv4 32001 demo/web 0'])
    assert.deepEqual(put(web({ loadBalancerVips: [] })), [])
    assert.deepEqual(put(web({ ports: [] })), ['IPv4 32001 gone'])
  })

  it('gives a port to the older of two Services that claim it', () => {
    const { put, remove } = newWorld()
    put(web())
    const older = web({ name: 'api', createdAtMs: 1, clusterIps: { IPv4: '10.96.10.2' }, loadBalancerVips: [] })
    assert.deepEqual(put(older), ['IPv4 32001 demo/api 0'])
    assert.deepEqual(remove('demo/api'), ['IPv4 32001 demo/web 0'])
  })

  it('ignores Services without a health check port', () => {
    const { put, remove } = newWorld()
    assert.deepEqual(put(web({ healthCheckNodePort: 0 })), [])
    assert.deepEqual(remove('demo/web'), [])
  })
})

/** Steps in which the recorded ports differ from ours, with the reason. */
const DIFFERENT: Readonly<Record<string, string>> = {
  'cleanup/2': 'the proxy does not run',
  'cleanup/3': 'the proxy does not run',
  'cleanup/4': 'the proxy does not run',
  'npa-none-match/1': 'deviation 24: kube-proxy does not listen where node ports have no address',
}

describe('health checks', () => {
  it('have the recorded ports and answers', () => {
    const different: string[] = []
    let answers = 0
    for (const name of recordedCases()) {
      const wanted = new WantedHealthChecks(IP_FAMILIES)
      const keys = new Set<string>()
      const sockets = new Map<string, HealthCheckChange['check']>()
      walkCase(name, (step) => {
        for (const key of keys) if (!step.frontends.has(key)) wanted.frontend(key, undefined)
        for (const [key, frontend] of step.frontends) {
          keys.add(key)
          wanted.frontend(key, frontend)
        }
        for (const { key, check } of wanted.changes()) sockets.set(key, check)
        const ours = [...sockets.values()].flatMap((check) =>
          check === undefined ? [] : step.listenAddresses[check.family].flatMap((address) => answerAt(address, check)),
        )
        const theirs = step
          .lines('listeners.txt')
          .join('\n')
          .split(/^(?=--- listen)/m)
          .filter((block) => block !== '' && !block.startsWith('--- listen *:10256'))
        if (ours.sort().join('').trim() !== theirs.sort().join('').trim()) different.push(step.name)
        answers += theirs.length
      })
    }
    assert.deepEqual(different, Object.keys(DIFFERENT))
    assert.equal(answers, 37)
  })
})

/** An answer in the format of the recordings, which have no empty line between headers and body. */
function answerAt(address: string, check: NonNullable<HealthCheckChange['check']>): string {
  const [listen, url] = address.includes(':')
    ? [`[${address}]`, `[${address === '::' ? '::1' : address}]`]
    : [address, address === '0.0.0.0' ? '127.0.0.1' : address]
  const { status, headers, body } = formatHealthCheck(check, true)
  const reason = status === 200 ? 'OK' : 'Service Unavailable'
  const lines = [
    `--- listen ${listen}:${check.port}`,
    `GET http://${url}:${check.port}/`,
    `HTTP/1.1 ${status} ${reason}`,
    ...headers.map((header) => header.join(': ')),
    body,
  ]
  return `${lines.join('\n')}\n`
}
