/**
 * A node between two network namespaces: a client that sends UDP from chosen ports, and pods that
 * answer with their own address. This process's namespace is the node; both families everywhere.
 * The node has a rule that needs conntrack, because the kernel tracks flows only then.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { sh } from './programs.ts'

export const NODE_ADDRESS = '10.0.2.15'
const POD_ADDRESSES = ['10.244.0.1', '10.244.0.2', 'fd00:10:244::1', 'fd00:10:244::2']
/** Where the pods answer. */
export const POD_PORT = 5353

const NODE = `
ip link set lo up
sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.vs.conntrack=1
ip link add eth0 type dummy && ip link set eth0 up && ip address add ${NODE_ADDRESS}/24 dev eth0
ip link add sink type dummy && ip link set sink up && ip route add 10.250.0.0/16 dev sink
nft 'add table inet track; add chain inet track c { type filter hook forward priority 0; }; add rule inet track c ct state invalid counter'
`

/** Answers each datagram with the address it was sent to. */
const SERVER = `
const [port, ...addresses] = process.argv.slice(1)
let left = addresses.length
for (const address of addresses) {
  const socket = require('dgram').createSocket(address.includes(':') ? 'udp6' : 'udp4')
  socket.on('message', (_, from) => socket.send(address, from.port, from.address))
  socket.bind(+port, address, () => { if (--left === 0) console.log('ready') })
}`

/**
 * A line of JSON in, one out. \`ask\`: one datagram from each port, sent again until it is answered
 * or two seconds are over; the answers by port. \`spray\`: one datagram each to many addresses that
 * no host has.
 */
const CLIENT = `
const dgram = require('dgram')
function ask(to, port, from) {
  return new Promise((resolve) => {
    const socket = dgram.createSocket(to.includes(':') ? 'udp6' : 'udp4')
    let tries = 0
    const end = (answer) => { clearInterval(timer); socket.close(() => resolve([from, answer])) }
    const send = () => ++tries > 8 ? end(null) : socket.send('?', port, to, () => {})
    const timer = setInterval(send, 250)
    socket.on('message', (answer) => end(String(answer)))
    socket.on('error', () => end(null))
    socket.bind(from, send)
  })
}
async function spray(count) {
  const socket = dgram.createSocket('udp4')
  for (let next = 0; next < count; ) {
    const sent = []
    for (let end = Math.min(count, next + 200); next < end; next++)
      sent.push(new Promise((done) => socket.send('?', 9, '10.250.' + (next >> 8) + '.' + (next & 255), done)))
    await Promise.all(sent)
  }
  socket.close()
}
async function run({ to, port, from, count, spray: many }) {
  if (many !== undefined) return spray(many)
  const answers = []
  for (let next = 0; next < count; next += 100)
    answers.push(...await Promise.all(Array.from({ length: Math.min(100, count - next) }, (_, i) => ask(to, port, from + next + i))))
  return answers
}
let last = Promise.resolve()
require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  last = last.then(() => run(JSON.parse(line))).then((answer) => console.log(JSON.stringify(answer ?? null)))
})
console.log('ready')`

export class UdpWorld {
  readonly #pods: ChildProcess
  readonly #client: ChildProcess
  readonly #answers: AsyncIterator<string>

  static async start(): Promise<UdpWorld> {
    sh(NODE)
    makeNamespace('pods', '10.244.0.254', 'fd00:10:244::fe', POD_ADDRESSES)
    makeNamespace('client', '10.0.3.1', 'fd00:10:0:3::1', ['10.0.3.2', 'fd00:10:0:3::2'])
    const pods = spawnIn('pods', SERVER, String(POD_PORT), ...POD_ADDRESSES)
    const client = spawnIn('client', CLIENT)
    const world = new UdpWorld(pods, client)
    await Promise.all([once(pods.stdout ?? pods, 'data'), world.#answers.next()])
    return world
  }

  private constructor(pods: ChildProcess, client: ChildProcess) {
    this.#pods = pods
    this.#client = client
    if (client.stdout === null) throw new Error('the client has no output')
    this.#answers = createInterface({ input: client.stdout })[Symbol.asyncIterator]()
  }

  /** The address that answers a datagram from each of `count` ports from `from` on; null: no answer. */
  async ask(to: string, port: number, from: number, count = 1): Promise<ReadonlyMap<number, string | null>> {
    return new Map(JSON.parse(await this.#tell({ to, port, from, count })))
  }

  /** Makes many flows to elsewhere, through the node. */
  async spray(flows: number): Promise<void> {
    await this.#tell({ spray: flows })
  }

  async #tell(task: Readonly<Record<string, unknown>>): Promise<string> {
    this.#client.stdin?.write(`${JSON.stringify(task)}\n`)
    const { value } = await this.#answers.next()
    return value
  }

  stop(): void {
    this.#pods.kill('SIGKILL')
    this.#client.kill('SIGKILL')
    sh(`ip netns delete ${namespace('pods')}; ip netns delete ${namespace('client')}`)
  }
}

const namespace = (name: string): string => `${name}-${process.pid}`

function spawnIn(name: string, script: string, ...args: string[]): ChildProcess {
  const command = ['netns', 'exec', namespace(name), process.execPath, '-e', script, ...args]
  return spawn('ip', command, { stdio: ['pipe', 'pipe', 'inherit'] })
}

/** A namespace with these addresses, behind the node's own two, which are its gateways. */
function makeNamespace(name: string, gateway4: string, gateway6: string, addresses: readonly string[]): void {
  const inside = namespace(name)
  const lines = addresses.map((address) =>
    address.includes(':')
      ? `ip -n ${inside} address add ${address}/64 dev eth0 nodad`
      : `ip -n ${inside} address add ${address}/24 dev eth0`,
  )
  sh(`set -e
    ip netns add ${inside}
    ip link add ${name} type veth peer name eth0 netns ${inside}
    ip link set ${name} up; ip address add ${gateway4}/24 dev ${name}; ip address add ${gateway6}/64 dev ${name} nodad
    ip -n ${inside} link set lo up; ip -n ${inside} link set eth0 up
    ${lines.join('\n')}
    ip -n ${inside} route add default via ${gateway4}; ip -n ${inside} -6 route add default via ${gateway6}`)
}
