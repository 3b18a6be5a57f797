/**
 * What Kubernetes permits of late, in everything that the program prints, in both modes: names of
 * Services that begin with a digit or have only digits (KEP-5311), and the hints of
 * trafficDistribution PreferSameNode and PreferSameZone (KEP-3015). Addresses as objects had them
 * before the API server became strict (KEP-4858) are printed as the kernel writes them.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { ApiServer } from '../../dev/api-server/server.ts'
import type { ExplainedEndpoint, Explanation } from '../../src/cli/explain/explanation.ts'
import type { Drain } from '../../src/cli/drain-text.ts'
import type { Status } from '../../src/cli/node-status.ts'
import type { TopJson } from '../../src/cli/top-json.ts'
import { Workbench } from '../support/daemon.ts'
import { eventually } from '../support/deadline.ts'
import { freshNode, rulesText, virtualServers } from '../support/kernel-state.ts'
import { type Manifest, node, service, slice } from '../support/manifests.ts'
import { parseMetrics, valueOf } from '../support/metrics-text.ts'
import { sh } from '../support/programs.ts'

const NODE_ADDRESS = '10.0.2.15'
const HEALTH_PORT = 32_123
const TAKEN_PORT = 32_124
const ports = (nodePort: number) => [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080, nodePort }]
const checked = (clusterIP: string, healthCheckNodePort: number, nodePort: number) => ({
  type: 'LoadBalancer',
  clusterIP,
  externalTrafficPolicy: 'Local',
  healthCheckNodePort,
  ports: ports(nodePort),
})
const on = (address: string, nodeName: string, forNodes: string, forZones: string) => ({
  addresses: [address],
  conditions: { ready: true },
  nodeName,
  hints: { forNodes: [{ name: forNodes }], forZones: [{ name: forZones }] },
})
const onlyZone = ({ hints: { forZones }, ...rest }: ReturnType<typeof on>) => ({ ...rest, hints: { forZones } })
const inSeven = { metadata: { namespace: '7' } }

const SERVICES: readonly Manifest[] = [
  service('1web', checked('10.96.0.1', HEALTH_PORT, 30_080), {
    metadata: { annotations: { 'kube-ipvs.io/scheduler': 'nonsense' } },
  }),
  service('42', checked('10.96.0.2', TAKEN_PORT, 30_081), inSeven),
  // As an API server before 1.36 accepted them.
  service(
    'old-forms',
    {
      type: 'LoadBalancer',
      clusterIP: '10.96.0.3',
      externalIPs: ['203.000.113.007'],
      loadBalancerSourceRanges: ['198.51.100.77/24'],
      ports: ports(30_083),
    },
    { status: { loadBalancer: { ingress: [{ ip: '::ffff:203.0.113.8' }] } } },
  ),
  service('same-node', { clusterIP: '10.96.0.4', trafficDistribution: 'PreferSameNode' }),
  service('same-zone', { clusterIP: '10.96.0.5', trafficDistribution: 'PreferSameZone' }),
]
const SLICES: readonly Manifest[] = [
  slice('1web', ['10.244.0.1']),
  slice('42', ['10.244.0.2'], inSeven),
  slice('old-forms', ['010.244.000.003']),
  slice('same-node', [], {
    endpoints: [on('10.244.0.4', 'node0', 'node0', 'a'), on('10.244.1.4', 'node1', 'node1', 'a')],
  }),
  slice('same-zone', [], {
    endpoints: [
      onlyZone(on('10.244.1.5', 'node1', '', 'a')),
      onlyZone(on('10.244.0.5', 'node0', '', 'b')),
      onlyZone(on('10.244.2.5', 'node2', '', 'a')),
    ],
  }),
]
const NODE = node(['010.0.02.15'], { metadata: { labels: { 'topology.kubernetes.io/zone': 'a' } } })

/** How the kernel writes them. */
const ADDRESSES = ['203.0.113.7:80', '203.0.113.8:80', '10.244.0.3:8080', '10.244.0.4:8080', '10.244.2.5:8080']
const OLD_FORMS = ['203.000', '::ffff', '010.', '198.51.100.77']
/** As comments of rules have them. */
const NAMES = ['demo/1web:http', '7/42:http', 'demo/old-forms:http', 'demo/same-node:http', 'demo/same-zone:http']

/** By Service port, the endpoints that the kernel has. */
const ENDPOINTS: Readonly<Record<string, readonly string[]>> = {
  '7/42:http': ['10.244.0.2:8080'],
  'demo/1web:http': ['10.244.0.1:8080'],
  'demo/old-forms:http': ['10.244.0.3:8080'],
  'demo/same-node:http': ['10.244.0.4:8080'],
  'demo/same-zone:http': ['10.244.1.5:8080', '10.244.2.5:8080'],
}

for (const mode of ['ipvs', 'iptables'] as const)
  describe(`names, addresses and hints of Kubernetes 1.37 in ${mode} mode`, () => {
    let bench: Workbench
    let api: ApiServer
    let daemon: ChildProcess
    let taken: Server
    let pod: Server
    const sockets: Socket[] = []

    before(async () => {
      freshNode()
      sh('ip address add 10.244.0.1/32 dev lo; ip address add 10.244.0.9/32 dev lo')
      taken = createServer().listen(TAKEN_PORT, '0.0.0.0')
      pod = createServer((socket) => sockets.push(socket)).listen(8080, '10.244.0.1')
      await once(pod, 'listening')
      api = new ApiServer()
      api.store.put('nodes', NODE)
      for (const object of SERVICES) api.store.put('services', object)
      for (const object of SLICES) api.store.put('endpointslices', object)
      bench = new Workbench({}, { mode, clusterCIDR: '10.244.0.0/16' })
      // For the commands that read objects themselves.
      bench.remove('node.yaml')
      bench.write('all.yaml', NODE, ...SERVICES, ...SLICES)
      daemon = bench.startOnApi(bench.kubeconfig(await api.listen()))
      // Rules have names in their comments, so the kernel alone knows them before the daemon answers.
      await eventually(async () => {
        const found = await status()
        assert.deepEqual([endpointsOf(found), found.daemon?.mode], [ENDPOINTS, mode])
      })
    })
    after(async () => {
      for (const socket of sockets) socket.destroy()
      await bench.close()
      await api.close()
      taken.close()
      pod.close()
    })

    const output = async (command: string, ...flags: string[]): Promise<string> => {
      const { stdout, stderr } = await bench.command(command, ...flags)
      assert.notEqual(stdout, '', stderr)
      return stdout
    }
    const status = async (...words: string[]): Promise<Status> =>
      JSON.parse(await output('status', '--output', 'json', ...words)) as Status // what our own program prints
    const explain = async (target: string): Promise<Explanation> =>
      JSON.parse(await output('explain', target, '--output', 'json')) as Explanation // what our own program prints
    const top = async (...words: string[]): Promise<TopJson> =>
      JSON.parse(await output('top', '--output', 'json', '--interval', '100ms', ...words)) as TopJson // what our own program prints

    it('status shows every Service by its name, and those that it is asked for', async () => {
      const text = await output('status')
      for (const [name, endpoints] of Object.entries(ENDPOINTS))
        for (const part of [name, ...endpoints]) assert.ok(text.includes(part), `${part} is missing in\n${text}`)
      for (const name of ['demo/1web', '7/42'])
        assert.deepEqual(Object.keys(endpointsOf(await status(name))), [`${name}:http`])
      assert.deepEqual(Object.keys(endpointsOf(await status('--address', '203.0.113.7'))), ['demo/old-forms:http'])
    })

    it('explain finds Services by name and by port, and says which hint decided', async () => {
      for (const target of ['demo/1web', 'demo/1web:http', 'demo/1web:80', '7/42', '7/42:80', '10.96.0.2:80']) {
        const { isFound, services } = await explain(target)
        assert.deepEqual(
          [isFound, services.map(({ namespace, name }) => `${namespace}/${name}`)],
          [true, [target.includes('1web') ? 'demo/1web' : '7/42']],
        )
      }
      assert.deepEqual((await explain('demo/1wep')).nearest, ['demo/1web'])
      const verdicts = async (target: string): Promise<readonly (readonly [string, string])[]> =>
        portEndpoints(await explain(target)).map(({ key, internal }) => [key, internal.verdict])
      assert.deepEqual(await verdicts('demo/same-node'), [
        ['10.244.0.4:8080', 'used-node-hint'],
        ['10.244.1.4:8080', 'other-node-hint'],
      ])
      assert.deepEqual(await verdicts('demo/same-zone'), [
        ['10.244.0.5:8080', 'other-zone-hint'],
        ['10.244.1.5:8080', 'used-zone-hint'],
        ['10.244.2.5:8080', 'used-zone-hint'],
      ])
      const text = await output('explain', 'demo/same-node')
      assert.match(text, /its hints name this node \("node0"\)/)
      assert.match(
        await output('explain', 'demo/same-zone'),
        /its hints are for zone "b", and this node is in zone "a"/,
      )
    })

    it('explain knows old forms of addresses by what they mean', async () => {
      for (const target of ['203.0.113.7:80', '203.0.113.8:80', '10.244.0.3:8080'])
        assert.equal((await bench.command('explain', target)).code, target.startsWith('10.244') ? 2 : 0, target)
      const { services } = await explain('demo/old-forms')
      const text = JSON.stringify(services)
      for (const part of ['203.0.113.7:80/tcp', '203.0.113.8:80/tcp', '10.244.0.3:8080', '198.51.100.0/24'])
        assert.ok(text.includes(part), `${part} is missing in ${text}`)
      for (const part of OLD_FORMS) assert.ok(!text.includes(part), part)
    })

    it('top shows them, alone and by namespace', async () => {
      const services = async (...words: string[]): Promise<readonly (string | null)[]> =>
        [...new Set((await top(...words)).rows.map(({ service: name }) => name))].sort()
      const all = Object.keys(ENDPOINTS).map((name) => name.replace(':http', ''))
      assert.deepEqual(await services(), all)
      assert.deepEqual(await services('7'), ['7/42'])
      assert.deepEqual(await services('demo/1web'), ['demo/1web'])
      assert.match(await output('top', '--interval', '100ms'), /^demo\/1web +/m)
    })

    it('the metrics, the health check port, the Events and the log name them', async () => {
      const families = parseMetrics(await (await fetch('http://127.0.0.1:10249/metrics')).text())
      const first = { namespace: 'demo', service: '1web' }
      connect(80, '10.96.0.1').on('error', () => undefined)
      if (mode === 'ipvs')
        await eventually(async () => {
          const counted = parseMetrics(await (await fetch('http://127.0.0.1:10249/metrics')).text())
          assert.ok((valueOf(counted, 'kubeipvs_service_connections_total', first) ?? 0) > 0)
        })
      assert.equal(valueOf(families, 'kubeipvs_services'), SERVICES.length)
      const health = await fetch(`http://${NODE_ADDRESS}:${HEALTH_PORT}/`)
      const { service: asked } = (await health.json()) as { readonly service: object } // kube-proxy's form
      assert.deepEqual(asked, { namespace: 'demo', name: '1web' })

      const events = () =>
        ([...api.events.objects.values()] as Record<string, object>[])
          .map(({ reason, regarding }) => [reason, regarding])
          .filter(([reason]) => String(reason) !== 'Starting')
      const about = (namespace: string, name: string) => ({ kind: 'Service', namespace, name, apiVersion: 'v1' })
      const failed = ['FailedToStartServiceHealthcheck', about('7', '42')]
      const wanted = mode === 'ipvs' ? [failed, ['InvalidAnnotation', about('demo', '1web')]] : [failed]
      await eventually(() => assert.deepEqual(events().sort(), wanted))
      await eventually(() => assert.match(bench.log, /"Opening healthcheck" service="demo\/1web" port=32123/))
      assert.match(bench.log, /"Failed to start healthcheck" .* service="7\/42" port=32124/)
      if (mode === 'ipvs') {
        const { daemon } = await status('demo/1web')
        assert.deepEqual(
          daemon?.problems.map(({ code, subject }) => [code, subject]),
          [['invalid-annotation', 'service demo/1web']],
        )
      }
    })

    it('rules and virtual servers have names and addresses as the kernel writes them', () => {
      const kernel = mode === 'ipvs' ? virtualServers().join('\n') : rulesText('iptables-save')
      for (const part of ['203.0.113.7', '10.244.0.3', '10.244.0.4', '10.244.2.5'])
        assert.ok(kernel.includes(part), part)
      for (const part of ['10.244.1.4', '10.244.0.5', '203.000', '::ffff']) assert.ok(!kernel.includes(part), part)
      if (mode === 'ipvs') return
      for (const name of ['demo/1web:http', '7/42:http', 'demo/old-forms:http'])
        assert.match(kernel, new RegExp(`--comment "${name} cluster IP"`))
      assert.match(kernel, /--comment "demo\/1web:http -> 10\.244\.0\.1:8080"/)
      assert.match(kernel, /--comment "7\/42:http health check node port"/)
      assert.match(kernel, /-s 198\.51\.100\.0\/24 .*demo\/old-forms:http/)
    })

    it('drain names what drains', async () => {
      if (mode === 'iptables') return
      const client = connect(80, '10.96.0.1')
      sockets.push(client)
      await once(client, 'connect')
      api.store.put('endpointslices', slice('1web', ['10.244.0.9']))
      await eventually(async () => {
        const { drains } = JSON.parse(await output('drain', '--output', 'json')) as {
          readonly drains: readonly Drain[]
        } // ours
        assert.ok(
          drains.some(
            ({ servicePort, realServer }) => servicePort === 'demo/1web:http' && realServer === '10.244.0.1:8080',
          ),
        )
      })
      assert.match(await output('drain'), /demo\/1web/)
      client.destroy()
      api.store.put('endpointslices', slice('1web', ['10.244.0.1']))
      await eventually(async () => assert.deepEqual(endpointsOf(await status()), ENDPOINTS))
    })

    it('doctor and diff print names and addresses as they are', async () => {
      const diagnose = async (): Promise<string> => {
        const flags = ['--socket', bench.socket, '--config', bench.configurationFile, '--manifests', bench.directory]
        const { stdout, stderr } = await bench.run('doctor', ...flags)
        assert.notEqual(stdout, '', stderr)
        return stdout
      }
      await eventually(async () => assert.match(await diagnose(), /^ok +a start changes nothing$/m))
      await bench.stop(daemon)
      sh(mode === 'ipvs' ? 'ipvsadm -C' : 'iptables -t nat -F')
      const { stdout } = await bench.command('diff')
      for (const part of mode === 'ipvs' ? ADDRESSES : NAMES)
        assert.ok(stdout.includes(part), `${part} is missing in\n${stdout}`)
      for (const part of OLD_FORMS) assert.ok(!stdout.includes(part), part)
      const diagnosis = await diagnose()
      assert.match(diagnosis, mode === 'ipvs' ? /# ipvsadm -A -t 10\.96\.0\.1:80 / : /A start makes \d+ changes?\./)
      for (const part of OLD_FORMS) assert.ok(!diagnosis.includes(part), part)
    })
  })

/** The real servers, or endpoints of rules, of each Service port. */
function endpointsOf({ ipvs, rules }: Status): Readonly<Record<string, readonly string[]>> {
  const found = new Map<string, Set<string>>()
  const add = (name: string | null | undefined, keys: readonly string[]): void => {
    if (typeof name !== 'string') return
    const known = found.get(name) ?? new Set()
    for (const key of keys) known.add(key)
    found.set(name, known)
  }
  for (const { service: name, realServers } of ipvs?.virtualServers ?? [])
    add(
      name,
      realServers.map(({ key }) => key),
    )
  for (const { service: name, endpoints } of rules ?? []) add(name, endpoints)
  return Object.fromEntries(
    [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, keys]) => [name, [...keys].sort()]),
  )
}

/** The endpoints of all ports. */
function portEndpoints({ services }: Explanation): readonly ExplainedEndpoint[] {
  return services.flatMap(({ ports: all }) => all.flatMap(({ endpoints }) => endpoints))
}
