import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Frontend, sameFrontend } from '../../src/service/frontends.ts'
import { frontendOf, SERVICE } from '../support/frontends.ts'

test('sameFrontend compares what tables render and nothing else', () => {
  const frontend = frontendOf({}, ['10.180.0.1', '10.180.1.1'])
  const [one, two] = frontend.endpoints
  assert.ok(one && two)
  const rows: [title: string, change: Partial<Frontend>, expected: boolean][] = [
    ['equal endpoints in another array', { endpoints: [{ ...one }, { ...two }] }, true],
    ['other verdicts', { verdicts: ['used-zone-hint', 'used'] }, true],
    ['another Service object', { service: { ...SERVICE } }, true],
    ['equal roles in another array', { roles: ['ClusterIP'] }, true],
    ['one endpoint less', { endpoints: [one] }, false],
    ['another endpoint port', { endpoints: [one, { ...two, port: 1 }] }, false],
    ['another endpoint address', { endpoints: [one, { ...two, address: '10.9.9.9' }] }, false],
    ['affinity', { affinityTimeoutSeconds: 1 }, false],
    ['health check port', { service: { ...SERVICE, healthCheckNodePort: 1 } }, false],
    ['what a health check counts', { localReadyEndpoints: 1 }, false],
    ['bind', { bind: false }, false],
    ['another role', { roles: ['ExternalIP'] }, false],
    ['one role more', { roles: ['ClusterIP', 'ExternalIP'] }, false],
    ['policy', { policy: 'Local' }, false],
    ['owner', { servicePortName: 'demo/other:http' }, false],
    ['key', { key: '10.20.30.41:81/tcp' }, false],
  ]
  for (const [title, change, expected] of rows) {
    assert.equal(sameFrontend(frontend, { ...frontend, ...change }), expected, title)
  }
})
