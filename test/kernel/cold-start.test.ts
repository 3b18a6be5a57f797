/**
 * A cold start under traffic that begins before it: a client outside the cluster sends to 2,000
 * Services from the first moment, and no packet may reach a pod that is not masqueraded, or that
 * source ranges forbid. IPVS finds the way back by client and pod alone, so no two targets share a
 * port of the client and one of the pod.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { after, before, it } from 'node:test'
import { ApiServer } from '../../dev/api-server/server.ts'
import { Workbench } from '../support/daemon.ts'
import { type Manifest, node, service, slice } from '../support/manifests.ts'
import { freshNode } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'

const SERVICES = 2000
const CLIENT = '198.18.0.2'
/** What pods see of masqueraded traffic: the address of the link that leads to them. */
const NODE = '169.254.1.1'
/** Ports of the open pod, from 8080. */
const POD_PORTS = 64
/** A quarter of the Services leads here: their ranges leave the client out. */
const CLOSED = '10.244.1.2'
const OPEN = '10.244.1.1'

/** Listens on ports from 8080, answers, and prints each source once. */
const POD = `
const [address, count] = process.argv.slice(1), seen = new Set()
let ready = 0
for (let index = 0; index < count; index++) {
  const socket = require('dgram').createSocket('udp4')
  socket.on('message', (_, from) => {
    if (!seen.has(from.address)) console.log('from ' + from.address)
    seen.add(from.address)
    socket.send('!', from.port, from.address)
  })
  socket.bind(8080 + index, address, () => ++ready == count && console.log('ready'))
}`

/** Sends to one target after the other, each from the socket that is given, and prints how many have answered. */
const SENDER = `
const targets = JSON.parse(require('fs').readFileSync(process.argv[1])), answered = new Set()
const sockets = new Map()
for (const { from } of targets) {
  if (sockets.has(from)) continue
  const socket = require('dgram').createSocket('udp4')
  socket.on('message', (_, from) => answered.add(from.address))
  sockets.set(from, socket)
}
let next = 0
const send = () => {
  for (let count = 0; count < 20; count++, next++) {
    const { address, from } = targets[next % targets.length]
    sockets.get(from).send('?', 53, address, () => {})
  }
  setTimeout(send, 1)
}
send()
setInterval(() => console.log('answered ' + answered.size), 50)`

class Namespace {
  readonly name: string
  readonly lines: string[] = []
  readonly #children: ChildProcess[] = []

  constructor(name: string, address: string, gateway: string) {
    this.name = `${name}-${process.pid}`
    sh(`ip netns add ${this.name}
      ip link add ve-${name} type veth peer name eth0 netns ${this.name}
      ip link set ve-${name} up; ip address add ${gateway}/32 dev ve-${name}; ip route add ${address}/32 dev ve-${name}
      ip netns exec ${this.name} sh -c 'ip link set lo up; ip link set eth0 up; ip address add ${address}/32 dev eth0; ip route add ${gateway} dev eth0; ip route add default via ${gateway} dev eth0'`)
  }

  run(script: string, ...args: readonly string[]): void {
    const command = ['netns', 'exec', this.name, process.execPath, '-e', script, ...args]
    const child = spawn('ip', command, { stdio: ['ignore', 'pipe', 'inherit'] })
    child.stdout.on('data', (chunk) => this.lines.push(...String(chunk).split('\n').filter(Boolean)))
    this.#children.push(child)
  }

  async close(): Promise<void> {
    const running = this.#children.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null)
    const gone = running.map((child) => once(child, 'exit'))
    for (const child of running) child.kill('SIGKILL')
    await Promise.all(gone)
    sh(`ip netns delete ${this.name}`)
  }
}

let open: Namespace
let closed: Namespace
let client: Namespace
const server = new ApiServer()
const bench = new Workbench({}, { clusterCIDR: '10.244.0.0/16' })
const targetsFile = `${bench.directory}.targets`
/** The client's socket for each target. */
const targets: { readonly address: string; readonly from: number }[] = []
let forbidden = 0

function put(of: Manifest, pod: string, port: number): void {
  const { namespace, name } = of['metadata'] as { readonly namespace: string; readonly name: string }
  server.store.put('services', of)
  const ports = [{ name: 'dns', protocol: 'UDP', port }]
  server.store.put('endpointslices', slice(name, [pod], { metadata: { namespace }, ports }))
}

const PORTS = [{ name: 'dns', protocol: 'UDP', port: 53, targetPort: 8080 }]

/** A ClusterIP each, an external IP, a VIP that the client may use, a VIP that it may not: in turn. */
function putService(index: number): void {
  const at = (network: string): string => `${network}.${index >> 8}.${index & 255}`
  const [clusterIP, vip] = [at('10.97'), at('203.0')]
  const kind = index % 4
  const spec = { clusterIP, ports: PORTS }
  const loadBalancerSourceRanges = kind === 2 ? ['198.18.0.0/15'] : ['192.0.2.0/24']
  const status = { loadBalancer: { ingress: [{ ip: vip }] } }
  const made =
    kind < 2
      ? service(`s${index}`, kind === 0 ? spec : { ...spec, externalIPs: [vip] })
      : service(`s${index}`, { ...spec, type: 'LoadBalancer', loadBalancerSourceRanges }, { status })
  put(made, kind === 3 ? CLOSED : OPEN, kind === 3 ? 8080 : 8080 + (index % POD_PORTS))
  const from = Math.floor(index / POD_PORTS)
  // The ClusterIP of a Service with source ranges is open, so of those that lead to the closed pod
  // only the VIP is tried.
  if (kind !== 3) targets.push({ address: clusterIP, from })
  if (kind !== 0) targets.push({ address: vip, from: from + SERVICES })
  if (kind === 3) forbidden++
}

before(async () => {
  freshNode()
  sh('sysctl -q -w net.ipv4.ip_forward=1')
  open = new Namespace('open', OPEN, NODE)
  closed = new Namespace('closed', CLOSED, NODE)
  client = new Namespace('client', CLIENT, '198.18.0.1')
  open.run(POD, OPEN, String(POD_PORTS))
  closed.run(POD, CLOSED, '1')
  await eventually(() => assert.deepEqual([open.lines, closed.lines], [['ready'], ['ready']]))
  server.store.put('nodes', node(['10.0.2.15']))
  for (let index = 0; index < SERVICES; index++) putService(index)
  // Last by name and by age.
  const metadata = (name: string, namespace: string) => ({ name, namespace, creationTimestamp: '2026-11-22T00:00:00Z' })
  const dns = service('dns', { clusterIP: '10.96.0.10', ports: PORTS }, { metadata: metadata('zz-dns', 'kube-system') })
  const api = service('api', { clusterIP: '10.96.0.1', ports: PORTS }, { metadata: metadata('kubernetes', 'default') })
  put(dns, OPEN, 8080)
  put(api, OPEN, 8080)
})
after(async () => {
  await bench.close()
  await server.close()
  for (const one of [open, closed, client]) await one.close()
  rmSync(targetsFile, { force: true })
})

async function startDaemon(): Promise<void> {
  const kubeconfig = `${bench.directory}/kubeconfig`
  const clusters = [{ name: 'c', cluster: { server: await server.listen() } }]
  const contexts = [{ name: 'x', context: { cluster: 'c', user: 'u' } }]
  const users = [{ name: 'u', user: {} }]
  writeFileSync(kubeconfig, JSON.stringify({ clusters, contexts, users, 'current-context': 'x' }))
  bench.startOnApi(kubeconfig)
}

it('a cold start forwards no packet unmasqueraded or against source ranges, and serves the API server and DNS first', async () => {
  writeFileSync(targetsFile, JSON.stringify(targets))
  client.run(SENDER, targetsFile)
  await eventually(() => assert.ok(client.lines.length > 5))
  await startDaemon()
  const wanted = targets.length - forbidden
  const answered = (): number => Number(client.lines.at(-1)?.replace('answered ', ''))
  await eventually(() => assert.ok(answered() >= wanted, `${answered()} of ${wanted}`), 90_000)
  // The kernel lists addresses in the order in which they were added.
  const listed = sh('ip -4 -o address show dev kube-ipvs0')
  const bound = Array.from(listed.matchAll(/kube-ipvs0 +inet ([\d.]+)\/32/g), ([, found]) => found)
  assert.deepEqual(bound.slice(0, 2).toSorted(), ['10.96.0.1', '10.96.0.10'])
  assert.deepEqual([open.lines, closed.lines], [['ready', `from ${NODE}`], ['ready']])
  assert.equal(answered(), wanted)
  // Without masquerading pods see the client itself.
  client.run(`require('dgram').createSocket('udp4').send('?', 8080, '${OPEN}')`)
  await eventually(() => assert.ok(open.lines.includes(`from ${CLIENT}`)))
})
