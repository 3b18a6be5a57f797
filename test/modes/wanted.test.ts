/** What a mode wants for one Service is what its plan has under the same table and key. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { frontendOf } from '../support/frontends.ts'
import { MemoryWorld } from '../support/memory-world.ts'
import { service } from '../support/objects.ts'

const signal = new AbortController().signal

describe('wanted', () => {
  for (const kind of ['addresses', 'routes'] as const)
    it(`names rows of the plan for one Service alone (virtual IPs as ${kind})`, async () => {
      const dataplane = new MemoryWorld().dataplane()
      dataplane.use(kind)
      const web = frontendOf({}, ['1.1.1.1'])
      const other = frontendOf({ port: 443, service: service({ name: 'api' }) }, ['2.2.2.2'])
      for (const one of [web, other]) dataplane.frontend(one.key, one)
      const plan = new Set((await dataplane.plan(signal)).map(({ table, key }) => `${table} ${key}`))
      const wanted = Array.from(dataplane.wanted([web]))
      assert.deepEqual(
        wanted.map(({ table, key, neededBy }) => [`${table} ${key}`, neededBy]),
        [
          ['virtual-servers 10.96.0.1:80/tcp', web.key],
          [`${kind} 10.96.0.1`, web.key],
          ['set-entries KUBE-CLUSTER-IP 10.96.0.1,tcp:80', web.key],
          ['set-entries KUBE-IPVS-IPS 10.96.0.1', web.key],
        ],
      )
      for (const { table, key } of wanted) assert.ok(plan.has(`${table} ${key}`), `${table} ${key}`)
    })
})
