/**
 * What a switch of the mode must not need or interrupt: the API server, which is away here, and the
 * answers of a health check port, which a client asks all the time.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { after, before, it } from 'node:test'
import { text } from 'node:stream/consumers'
import { ApiServer } from '../../dev/api-server/server.ts'
import { Workbench } from '../support/daemon.ts'
import { eventually, until } from '../support/deadline.ts'
import { freshNode, rulesText, virtualServers } from '../support/kernel-state.ts'
import { node, service, slice } from '../support/manifests.ts'
import { needs } from './needs.ts'

const PORT = 32001
/** Virtual servers wait for their rules for up to 15 s. */
const RULES_MS = 30_000
const TABLE = ['-A -t 10.96.0.1:80 -s rr', '-a -t 10.96.0.1:80 -r 10.244.0.1:8080 -m -w 1'].toSorted()
/**
 * Asks over a new connection every 5 ms until its input ends, then prints how often and each answer
 * that was not as it should be.
 */
const CLIENT = `
  const { request } = require('node:http')
  let asked = 0
  const wrong = []
  const ask = () => new Promise((done) => {
    const failed = (error) => { wrong.push(String(error.code ?? error)); done() }
    request({ host: '127.0.0.1', port: ${PORT}, agent: false, timeout: 10_000 }, (answer) => {
      const weight = answer.headers['x-load-balancing-endpoint-weight']
      if (answer.statusCode !== 200 || weight !== '1') wrong.push(answer.statusCode + ' ' + weight)
      answer.resume().on('end', done).on('error', failed)
    }).on('timeout', function () { this.destroy(new Error('timeout')) }).on('error', failed).end()
  })
  let isAsking = true
  process.stdin.resume().on('end', () => { isAsking = false })
  const loop = async () => {
    while (isAsking) {
      await ask()
      asked++
      await new Promise((next) => setTimeout(next, 5))
    }
    console.log(JSON.stringify({ asked, wrong }))
  }
  loop()`

const server = new ApiServer()
// Health would suffer when a pass takes twice as long as the period of 1 s that other tests have.
const bench = new Workbench({ syncPeriod: '30s' }, { clusterCIDR: '10.244.0.0/16' })

before(async () => {
  freshNode()
  server.store.put('nodes', node(['10.0.2.15']))
  const web = service('web', {
    type: 'LoadBalancer',
    clusterIP: '10.96.0.1',
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: PORT,
  })
  server.store.put('services', web)
  server.store.put('endpointslices', slice('web', ['10.244.0.1']))
  bench.startOnApi(bench.kubeconfig(await server.listen()))
  await eventually(async () => assert.equal((await fetch(`http://127.0.0.1:${PORT}`)).status, 200))
})
after(async () => {
  await bench.close()
  await server.close()
})

const serviceChains = (): number => rulesText('iptables-save').match(/^:KUBE-SVC-/gm)?.length ?? 0

it(
  'a switch to iptables mode and back, while the API server is away, serves every Service, and no health check fails',
  needs('iptables-nft'),
  async (t) => {
    const client = spawn(process.execPath, ['-e', CLIENT], { stdio: ['pipe', 'pipe', 'inherit'] })
    t.after(() => client.kill())
    const report = text(client.stdout)
    await server.close()
    await until('the daemon notices', () => /Failed to watch/.test(bench.log))
    const requests = server.requests.length
    const connection = { clientConnection: { kubeconfig: `${bench.directory}/kubeconfig` } }
    // A fourth switch within 15 minutes would wait.
    for (const mode of ['iptables', 'ipvs', 'iptables']) {
      bench.configure({ mode, ...connection })
      // Until all rules of the next mode are there, those of the one before stay.
      await eventually(() => assert.equal(serviceChains(), mode === 'iptables' ? 1 : 0), RULES_MS)
      const table = mode === 'iptables' ? [] : TABLE
      await eventually(() => assert.deepEqual(virtualServers(), table))
    }
    client.stdin.end()
    const { asked, wrong } = JSON.parse(await report) as { asked: number; wrong: string[] } // CLIENT wrote it
    t.diagnostic(`${asked} answers, ${wrong.length} wrong`)
    assert.ok(asked > 100, String(asked))
    assert.deepEqual(wrong, [])
    assert.equal(server.requests.length, requests)
  },
)
