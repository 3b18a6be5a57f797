/** Starts, ends and log lines of the whole daemon, as operators and their tools see them. */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ApiServer } from '../../dev/api-server/server.ts'
import { Workbench } from '../support/daemon.ts'
import { node, service, slice } from '../support/manifests.ts'
import { boundAddresses, freshNode, setsText, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'

const WEB = service('web', { clusterIP: '10.96.0.1' })
const HEADER = /^[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} {1,7}\d+ [\w.-]+\.ts:\d+\] ("|FLAG: )/

let bench: Workbench
let server: ApiServer
beforeEach(() => {
  freshNode()
  server = new ApiServer()
  server.store.put('nodes', node(['10.0.2.15'], { spec: { podCIDRs: ['10.244.0.0/24'] } }))
  server.store.put('services', WEB)
  server.store.put('endpointslices', slice('web', ['10.244.0.1']))
})
afterEach(async () => {
  await bench.close()
  await server.close()
})

/** Ends the daemon, within a second where nothing else uses the processors; resolves to its exit code. */
async function endsSoon(daemon: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
  const ended = bench.stop(daemon, signal)
  await eventually(() => assert.notEqual(daemon.exitCode, null), 1000)
  return ended
}

const lines = (): string[] => bench.log.split('\n').filter((line) => line !== '' && !/^(\t| >)/.test(line))
const messages = (): string[] => lines().flatMap((line) => /\] "((?:[^"\\]|\\.)*)"/.exec(line)?.[1] ?? [])

describe('the end of the daemon', () => {
  for (const [signal, code] of [
    ['SIGTERM', 143],
    ['SIGINT', 130],
    ['SIGHUP', 129],
  ] as const)
    it(`follows ${signal} within a second, with code ${code} and an unchanged kernel`, async () => {
      bench = new Workbench()
      bench.write('web.yaml', WEB, slice('web', ['10.244.0.1']))
      const daemon = bench.start()
      await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']))
      const before = [virtualServers(), boundAddresses(), setsText('list', '-n').split('\n').sort()]
      assert.equal(await endsSoon(daemon, signal), code)
      assert.deepEqual([virtualServers(), boundAddresses(), setsText('list', '-n').split('\n').sort()], before)
      await eventually(() =>
        assert.match(bench.log, new RegExp(`"Stopping; the kernel keeps what it has" signal="${signal}"\\n$`)),
      )
    })

  it('is as fast while the API server hangs', async () => {
    bench = new Workbench()
    server.inject({ times: 1000, action: { kind: 'hang' } })
    const daemon = bench.startOnApi(bench.kubeconfig(await server.listen()))
    await eventually(() => assert.ok(server.connectionCount > 0))
    assert.equal(await endsSoon(daemon), 143)
  })
})

describe('a start', () => {
  it('logs its result in the words that operators search for', async () => {
    bench = new Workbench()
    bench.startOnApi(bench.kubeconfig(await server.listen()))
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']))
    for (const line of lines()) assert.match(line, HEADER)
    const said = messages()
    for (const message of [
      'Using ipvs Proxier',
      'Waiting for caches to sync',
      'Caches populated',
      'Caches are synced',
      'Successfully retrieved NodeIPs',
      'Kube-proxy configuration may be incomplete or incorrect',
      'kube-proxy running in dual-stack mode',
      'Ipset name truncated',
      'ipvs sync params',
      'Version info',
    ])
      assert.ok(said.includes(message), `${message} is missing in\n${bench.log}`)
    await eventually(() => assert.match(bench.log, /"Successfully retrieved NodeIPs" NodeIPs=\["10\.0\.2\.15"\]/))
    await eventually(() => assert.match(bench.log, /"kube-proxy running in dual-stack mode" primary ipFamily="IPv4"/))
    await eventually(() =>
      assert.match(
        bench.log,
        /^E.*err="nodePortAddresses is unset; NodePort connections will be accepted on all local IPs\. Consider using `--nodeport-addresses primary`"$/m,
      ),
    )
    assert.doesNotMatch(bench.log, /deprecated|nftables|Setting nf_conntrack_max/)
  })

  it('logs JSON with the members of kube-proxy', async () => {
    bench = new Workbench({}, { logging: { format: 'json', verbosity: 2 } })
    bench.startOnApi(bench.kubeconfig(await server.listen()))
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']))
    for (const text of bench.log.trimEnd().split('\n')) {
      const line = JSON.parse(text) as Record<string, unknown>
      assert.ok(Number(line['ts']) > 1_700_000_000_000 && Number(line['ts']) < 1e13)
      assert.match(String(line['caller']), /^[\w-]+\/[\w-]+\.ts:\d+$/)
      assert.ok('v' in line !== 'err' in line, text)
      assert.ok(!('level' in line))
    }
    const doubt = bench.log.split('\n').find((line) => line.includes('incomplete or incorrect'))
    assert.equal((JSON.parse(doubt ?? '') as { errCauses: unknown[] }).errCauses.length, 1)
  })

  it('ends with 1 and the words of kube-proxy when there is nothing to connect with', async () => {
    bench = new Workbench()
    const bad = `${bench.directory}/bad.conf`
    const empty = `${bench.directory}/empty.conf`
    writeFileSync(bad, 'a: b: c\n  - [')
    writeFileSync(empty, '')
    const inCluster =
      'unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined'
    for (const [kubeconfig, reason] of [
      ['/nonexistent', 'stat /nonexistent: no such file or directory'],
      [bad, `error loading config file \\"${bad}\\": yaml: `],
      [
        empty,
        'invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable',
      ],
      ['', inCluster],
    ] as const) {
      const { code, stderr } = await bench.run('--proxy-mode=ipvs', `--kubeconfig=${kubeconfig}`)
      assert.equal(code, 1)
      assert.ok(stderr.includes(`"Error running ProxyServer" err="${reason}`), stderr)
      assert.ok(stderr.includes(`"command failed" err="${reason}`), stderr)
    }
  })

  it('keeps tokens and keys out of the log at any verbosity', async () => {
    bench = new Workbench()
    const token = 'eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl'
    const body = JSON.stringify({ kind: 'Status', code: 401, reason: 'Unauthorized', message: `bad token ${token}` })
    server.inject({ times: 6, action: { kind: 'status', status: 401, body } })
    const user = { token, password: 'c2VjcmV0' }
    const daemon = bench.startOnApi(bench.kubeconfig(await server.listen(), user), {}, '-v', '10')
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']), 30_000)
    await bench.stop(daemon)
    await eventually(() => assert.match(bench.log, /"Failed to watch" err="failed to list \*v1\.\w+: 401/))
    assert.doesNotMatch(bench.log, /eyJ|c2VjcmV0|c2lnbm/)
  })

  it('prints names with any content only as quoted text', async () => {
    bench = new Workbench()
    const name = 'x\nE1122 00:00:00.000000 1 a.go:1] "forged"\u001b[2J'
    server.store.put('services', service(name, { clusterIP: 'nonsense' }))
    bench.startOnApi(bench.kubeconfig(await server.listen()))
    await eventually(() => assert.match(bench.log, /forged/))
    assert.doesNotMatch(bench.log, /^E1122 00:00/m)
    assert.ok(!bench.log.includes('\u001b'))
  })
})

describe('the Node', () => {
  const start = async (more: Readonly<Record<string, unknown>> = {}) => {
    bench = new Workbench({}, { nodePortAddresses: ['primary'], ...more })
    server.store.put(
      'services',
      service('np', {
        type: 'NodePort',
        clusterIP: '10.96.0.2',
        ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30080 }],
      }),
    )
    return bench.startOnApi(bench.kubeconfig(await server.listen()))
  }
  const nodePorts = (): string[] => virtualServers().filter((line) => line.includes(':30080 '))

  it('is followed when its address changes, and reported when it is deleted', async () => {
    await start()
    await eventually(() => assert.deepEqual(nodePorts(), ['-A -t 10.0.2.15:30080 -s rr']))
    sh('ip address add 10.0.2.16/24 dev eth0')
    server.store.put('nodes', node(['10.0.2.16'], { spec: { podCIDRs: ['10.244.0.0/24'] } }))
    await eventually(() => assert.ok(nodePorts().includes('-A -t 10.0.2.16:30080 -s rr')))
    await eventually(() =>
      assert.match(
        bench.log,
        /^I.*"NodeIPs changed for the node" node="node0" newNodeIPs=\["10\.0\.2\.16"\] oldNodeIPs=\["10\.0\.2\.15"\]$/m,
      ),
    )
    server.store.delete('nodes', 'node0')
    await eventually(() => assert.match(bench.log, /^I.*"Node is being deleted" node="node0"$/m))
    assert.ok(nodePorts().includes('-A -t 10.0.2.16:30080 -s rr'))
  })

  it('ends the process in NodeCIDR mode when its pod CIDRs change', async () => {
    const daemon = await start({ detectLocalMode: 'NodeCIDR' })
    await eventually(() => assert.equal(nodePorts().length, 1))
    server.store.put('nodes', node(['10.0.2.15'], { spec: { podCIDRs: ['10.244.7.0/24'] } }))
    assert.equal(await bench.ended(daemon), 1)
    await eventually(() =>
      assert.match(
        bench.log,
        /"PodCIDRs changed for the node" node="node0" newPodCIDRs=\["10\.244\.7\.0\/24"\] oldPodCIDRs=\["10\.244\.0\.0\/24"\]/,
      ),
    )
    assert.equal(nodePorts().length, 1)
  })

  it('is waited for in NodeCIDR mode before anything is written', async () => {
    server.store.delete('nodes', 'node0')
    await start({ detectLocalMode: 'NodeCIDR' })
    await eventually(() => assert.ok(messages().filter((message) => message === 'Caches are synced').length === 3))
    assert.deepEqual(virtualServers(), [])
    server.store.put('nodes', node(['10.0.2.15'], { spec: { podCIDRs: ['10.244.0.0/24'] } }))
    await eventually(() => assert.equal(nodePorts().length, 1))
  })
})

describe('a start without a mode', () => {
  it('is one in iptables mode that an error and an Event of kube-proxy 1.37 speak of', async () => {
    bench = new Workbench({}, { mode: '' })
    bench.startOnApi(bench.kubeconfig(await server.listen()))
    await eventually(() => assert.equal(server.events.objects.size, 2))
    const events = [...server.events.objects.values()] as Record<string, unknown>[]
    const note = "No kube-proxy mode specified: defaulting to 'iptables'. "
    assert.deepEqual(
      events.map(({ reason, type, action, note: text = '' }) => [
        reason,
        type,
        action,
        String(text).slice(0, note.length),
      ]),
      [
        ['KubeProxyDefaultMode', 'Warning', 'StartKubeProxy', note],
        ['Starting', 'Normal', 'StartKubeProxy', ''],
      ],
    )
    const said = messages()
    const place = said.findIndex((message) => message.startsWith(note))
    assert.ok(place >= 0 && said.indexOf('Using iptables Proxier') === place + 1, said.join('\n'))
    assert.match(bench.log, /^E.*No kube-proxy mode specified: .* in Kubernetes 1\.40 /m)
    assert.ok(!said.includes('Using iptables proxy'))
  })
})

describe('Events', () => {
  it('are those of kube-proxy and no other', async () => {
    const port = 32_123
    const taken = createServer().listen(port, '0.0.0.0')
    try {
      bench = new Workbench()
      const local = {
        type: 'LoadBalancer',
        clusterIP: '10.96.0.3',
        externalTrafficPolicy: 'Local',
        healthCheckNodePort: port,
        ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30081 }],
      }
      server.store.put('services', service('lb', local))
      bench.startOnApi(bench.kubeconfig(await server.listen()))
      await eventually(() => assert.equal(server.events.objects.size, 2))
      const events = [...server.events.objects.values()] as Record<string, unknown>[]
      const hostName = sh('hostname').trim()
      assert.deepEqual(
        events
          .map((event) => [event['reason'], event['type'], event['action'], event['reportingInstance'], event['note']])
          .sort(),
        [
          [
            'FailedToStartServiceHealthcheck',
            'Warning',
            'Listen',
            `kube-proxy-${hostName}`,
            `node node0 failed to start healthcheck "demo/lb" on port ${port}: listen tcp4 0.0.0.0:${port}: bind: address already in use`,
          ],
          ['Starting', 'Normal', 'StartKubeProxy', `kube-proxy-${hostName}`, undefined],
        ],
      )
      assert.deepEqual(events.find((event) => event['reason'] === 'Starting')?.['regarding'], {
        kind: 'Node',
        name: 'node0',
        apiVersion: 'v1',
      })
      await eventually(() => assert.match(bench.log, /"Opening healthcheck" service="demo\/lb" port=32123/))
      await eventually(() =>
        assert.match(
          bench.log,
          /^E.*"Failed to start healthcheck" err=".*bind: address already in use" node="node0" service="demo\/lb" port=32123$/m,
        ),
      )
    } finally {
      taken.close()
    }
  })
})
