/**
 * What a new user does, from one rendering of the chart to answers of a sample application: its
 * objects are applied to an API server, and the pod of the DaemonSet starts in the image's root
 * file system exactly as the rendering says. Nothing of the chart is repeated here.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import type { PolicyRule } from '../../dev/api-server/authorizer.ts'
import { ApiServer } from '../../dev/api-server/server.ts'
import { IMAGE_VARIABLE } from '../../dev/image/contents.ts'
import type { KubernetesObject } from '../helm/openapi.ts'
import { goldenText, objectsIn } from '../helm/renderings.ts'
import { issueCertificate, makeAuthority } from '../../dev/api-server/certificate.ts'
import { ADDRESSES, Cluster, NODE, type Pod, POD_PORT } from '../support/cluster.ts'
import { CAPABILITIES, type Capability } from '../support/container-runtime.ts'
import { node, service, slice } from '../support/manifests.ts'
import { freshNode } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { type ContainerSpec, Kubelet, type PodSpec } from '../support/kubelet.ts'
import type { Place } from '../support/net-namespace.ts'
import type { IpFamily } from '../../src/values/protocol.ts'
import { needs } from './needs.ts'

const TOKEN = 'the-token-of-the-service-account'
const NODE_NAME = 'node0'

/** A cluster of one family: the rendering of the chart for it, and the addresses of the sample application. */
interface World {
  readonly rendering: string
  readonly family: IpFamily
  /** The cluster IPs of `shop`, on two pods, of its name service `dns`, and of `late`, which a user adds. */
  readonly clusterIps: Readonly<Record<'shop' | 'dns' | 'late', string>>
  readonly externalIp: string
  readonly loadBalancerIp: string
}
const WORLDS: readonly World[] = [
  {
    // The values that a user cannot leave out.
    rendering: 'least',
    family: 'IPv4',
    clusterIps: { shop: '10.96.0.10', dns: '10.96.0.53', late: '10.96.0.11' },
    externalIp: '203.0.113.10',
    loadBalancerIp: '198.51.100.10',
  },
  {
    rendering: 'ipv6-only',
    family: 'IPv6',
    clusterIps: { shop: 'fd00:96::10', dns: 'fd00:96::53', late: 'fd00:96::11' },
    externalIp: '2001:db8:1::10',
    loadBalancerIp: '2001:db8:2::10',
  },
]
const HTTP = { name: 'http', protocol: 'TCP', port: 80, targetPort: POD_PORT } as const
const DNS = { name: 'dns', protocol: 'UDP', port: 53, targetPort: POD_PORT } as const

/** The object of a kind, of which there is one. */
function only<T>(objects: readonly KubernetesObject[], kind: string): T {
  const found = objects.filter((object) => object.kind === kind)
  assert.equal(found.length, 1, kind)
  return found[0] as T // the form is that of the kind, and the tests of the chart check it
}

interface DaemonSet {
  readonly metadata: { readonly namespace: string }
  readonly spec: { readonly template: { readonly spec: PodSpec } }
}
interface ConfigMap {
  readonly metadata: { readonly name: string }
  readonly data: Readonly<Record<string, string>>
}

/** What is not wrong with the chart. */
const EXPECTED = [
  // Only the first network namespace of a kernel may write it, and tests have others.
  / field="net\/netfilter\/nf_conntrack_max" /,
  // kube-proxy's own words, until the user names the addresses of node ports.
  / err="nodePortAddresses is unset; /,
]

for (const { rendering, family, clusterIps, externalIp, loadBalancerIp } of WORLDS)
  describe(`a new user of the rendering ${rendering}`, needs('image'), () => {
    const objects = objectsIn(goldenText(rendering))
    const daemonSet = only<DaemonSet>(objects, 'DaemonSet')
    const configMap = only<ConfigMap>(objects, 'ConfigMap')
    const pod = daemonSet.spec.template.spec
    const [main] = pod.containers as readonly [ContainerSpec, ...ContainerSpec[]] // the kubelet checks that there is one
    const [FILE = '', CONFIGURATION = ''] = Object.entries(configMap.data)[0] ?? []
    const variable = (name: string): string => main.env?.find((one) => one.name === name)?.value ?? ''

    const nodeIp = NODE[family]
    const places: readonly Place[] = [
      { protocol: 'tcp', address: clusterIps.shop, port: 80 },
      { protocol: 'tcp', address: nodeIp, port: 30_080 },
      { protocol: 'tcp', address: externalIp, port: 80 },
      { protocol: 'tcp', address: loadBalancerIp, port: 80 },
      { protocol: 'udp', address: clusterIps.dns, port: 53 },
    ]
    let cluster: Cluster
    let server: ApiServer
    let kubelet: Kubelet
    let child: ChildProcess
    let initialized = ''

    /** Applies a Service with these pods as its endpoints. */
    function apply(
      name: keyof typeof clusterIps,
      port: typeof HTTP | typeof DNS,
      pods: readonly Pod[],
      more: object = {},
    ): void {
      const { name: portName, protocol } = port
      const spec = { clusterIP: clusterIps[name], ipFamilies: [family], ports: [port], ...more }
      const status = { loadBalancer: { ingress: [{ ip: loadBalancerIp }] } }
      const addresses = pods.map((one) => ADDRESSES[one][family])
      const ports = [{ name: portName, protocol, port: POD_PORT }]
      server.store.put('services', service(name, spec, name === 'shop' ? { status } : {}))
      server.store.put('endpointslices', slice(name, addresses, { addressType: family, ports }))
    }

    before(async () => {
      freshNode()
      sh('ip link delete eth0')
      cluster = Cluster.start()
      const host = variable('KUBERNETES_SERVICE_HOST')
      sh(`ip address add ${host} dev lo ${family === 'IPv6' ? 'nodad' : ''}`)
      const authority = makeAuthority('kubernetes')
      server = new ApiServer({ tls: issueCertificate(authority, 'kube-apiserver', host), tokens: new Set([TOKEN]) })
      await server.listen(Number(variable('KUBERNETES_SERVICE_PORT')), host)
      server.authorizer.rules = only<{ readonly rules: readonly PolicyRule[] }>(objects, 'ClusterRole').rules
      const podCIDRs = [family === 'IPv4' ? '10.244.0.0/24' : 'fd00:10:244::/64']
      const spec = { podCIDR: podCIDRs[0], podCIDRs }
      server.store.put('nodes', node([nodeIp], { metadata: { name: NODE_NAME }, spec }))
      const ports = [{ ...HTTP, nodePort: 30_080 }]
      apply('shop', HTTP, ['a', 'b'], { type: 'LoadBalancer', externalIPs: [externalIp], ports })
      apply('dns', DNS, ['a'])
      kubelet = new Kubelet({
        nodeName: NODE_NAME,
        namespace: daemonSet.metadata.namespace,
        configMaps: new Map([
          [configMap.metadata.name, configMap.data],
          ['kube-root-ca.crt', { 'ca.crt': authority.cert }],
        ]),
        token: TOKEN,
        root: process.env[IMAGE_VARIABLE] ?? '',
        hasSeccomp: process.arch === 'x64',
      })
      ;({ child, initialized } = await kubelet.start(pod))
    })
    after(async () => {
      await kubelet.close()
      await server.close()
      cluster.stop()
    })

    const answers = async (): Promise<readonly string[]> => {
      const found: string[] = []
      for (const to of places) found.push(await cluster.ask('client', to))
      return found.map((outcome) => outcome.replace(/^[abc] /, ''))
    }
    /** Every place answers. */
    const served = (): Promise<void> =>
      eventually(async () => {
        const found = await answers()
        assert.ok(
          found.every((outcome) => outcome === 'own' || outcome === 'node'),
          `${found.join(', ')}\n${kubelet.log.slice(-4000)}`,
        )
      }, 60_000)
    const complaints = (text: string): readonly string[] =>
      text.split('\n').filter((line) => /^[EWF]\d{4} /.test(line) && !EXPECTED.some((one) => one.test(line)))

    it('gets answers from every address of the sample application', async () => {
      await served()
      const [shop] = places as readonly [Place, ...Place[]]
      const pods = (await cluster.askInTurn('client', shop, 6)).map((outcome) => outcome[0])
      assert.deepEqual([...new Set(pods)].sort(), ['a', 'b'], 'both pods get connections')
      assert.match(await cluster.ask('c', shop), /^[ab] (own|node)$/)
      assert.match(await cluster.ask('node', shop), /^[ab] node$/)
    })

    it('sees a daemon with the rights of the chart, whose probes pass', async () => {
      for (const kind of ['startupProbe', 'livenessProbe', 'readinessProbe'] as const)
        await eventually(async () => assert.equal(await kubelet.probe(main, kind, nodeIp), 200, kind))
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
      const given = (main.securityContext.capabilities?.add ?? []) as readonly Capability[] // checked by the kubelet
      const mask = given.reduce((sum, name) => sum | (1n << BigInt(CAPABILITIES[name])), 0n)
      for (const set of ['CapPrm', 'CapEff', 'CapBnd'])
        assert.match(status, new RegExp(`^${set}:\\t${mask.toString(16).padStart(16, '0')}$`, 'm'))
      assert.match(status, /^NoNewPrivs:\t1$/m)
      if (process.arch === 'x64') assert.match(status, /^Seccomp:\t2$/m)
    })

    it('reads no error and no warning, and the API server refused nothing', async () => {
      assert.deepEqual(complaints(initialized), [])
      assert.deepEqual(complaints(kubelet.log), [])
      assert.deepEqual(server.authorizer.refused, [])
      await eventually(() =>
        assert.ok(
          server.events.writes.some(({ status }) => status === 201),
          'the Event of the start',
        ),
      )
    })

    it('passes `helm test`, whose pod compares the kernel with the Services', async () => {
      const { spec } = only<{ readonly spec: PodSpec }>(objects, 'Pod')
      const { code, log } = await kubelet.run(spec)
      assert.equal(code, 0, log)
    })

    it('keeps traffic and daemon when the ConfigMap is edited to nonsense, and reads what is wrong', async () => {
      for (const text of ['mode: [', `${CONFIGURATION}\nipvs:\n  syncPeriod: soon\n`]) {
        const before = kubelet.log.length
        kubelet.update(configMap.metadata.name, { [FILE]: text })
        await eventually(() => assert.match(kubelet.log.slice(before), /"The configuration file is invalid/))
        await served()
        assert.equal(child.exitCode, null, kubelet.log)
        assert.equal(await kubelet.probe(main, 'livenessProbe', nodeIp), 200)
      }
    })

    it('sees a valid edit applied by the running daemon', async () => {
      kubelet.update(configMap.metadata.name, { [FILE]: `${CONFIGURATION}\nlogging:\n  verbosity: 2\n` })
      await eventually(() => assert.match(kubelet.log, /"Configuration file changed".*"logging\.verbosity"/))
      apply('late', HTTP, ['b'])
      const late = { protocol: 'tcp', address: clusterIps.late, port: 80 } as const
      await eventually(async () => assert.match(await cluster.ask('client', late, { withinMs: 1000 }), /^b /))
      await eventually(() => assert.match(kubelet.log, /"Pass done"/))
    })

    it('keeps traffic when the daemon ends', async () => {
      assert.equal(await kubelet.stop(child), 143)
      await served()
    })

    it(
      'reads after a start what a kube-proxy left in the other back end of iptables',
      needs('legacy-iptables'),
      async () => {
        sh('iptables-legacy -t nat -N KUBE-SVC-ERIFXISQEP7F7OF4; iptables-legacy -t nat -N KUBE-SERVICES')
        const before = kubelet.log.length
        ;({ child } = await kubelet.start(pod))
        const left = /chains of a service proxy are in iptables-legacy, while this node uses iptables-nft/
        await eventually(() => assert.match(kubelet.log.slice(before), left), 60_000)
        await served()
      },
    )
  })
