/**
 * A kube-apiserver with its etcd on loopback as the server that a run measures. Clients reach it
 * through a relay, which counts bytes and makes outages, and its audit log has their requests. The
 * run has its own namespace of processes, so the kernel ends both programs together with the run.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, existsSync, openSync, readFileSync, readSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ObjectKind } from '../../../src/service/objects.ts'
import { issueCertificate, makeAuthority } from '../../api-server/certificate.ts'
import type { Json } from '../../api-server/store.ts'
import { say, tail } from '../../progress.mjs'
import { AuditLog, auditPolicy } from './audit-log.ts'
import { CLIENT_TOKEN } from './clients.ts'
import type { LoadServer } from './load-server.ts'
import type { RealServer } from './plan.ts'
import { Relay } from './relay.ts'

const READY_MS = 300_000
const ANSWER_MS = 60_000
/** The server writes an event when a request arrives; this is for the line to be in the file. */
const LOG_MS = 50
const OWN_TOKEN = 'writer'
/** As kube-proxy of kubeadm: the server divides its time by user and group. */
const CLIENT = 'system:serviceaccount:kube-system:kube-proxy'
const CLIENT_GROUPS = 'system:serviceaccounts,system:serviceaccounts:kube-system'
const PORTS = { etcd: 23_790, peers: 23_800, server: 26_443 } as const

const COLLECTIONS: Readonly<Record<ObjectKind, (namespace: string) => string>> = {
  services: (namespace) => `/api/v1/namespaces/${namespace}/services`,
  endpointslices: (namespace) => `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`,
  nodes: () => '/api/v1/nodes',
}
const TYPES: Readonly<Record<ObjectKind, object>> = {
  services: { apiVersion: 'v1', kind: 'Service' },
  endpointslices: { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice' },
  nodes: { apiVersion: 'v1', kind: 'Node' },
}

/** @param folder for its data, keys and logs */
export async function kubeApiserver(programs: RealServer, folder: string): Promise<LoadServer> {
  const authority = makeAuthority('api-load')
  const args = serverArguments(folder, issueCertificate(authority, 'server'))
  const running = new Programs(folder)
  running.start(programs.etcd, etcdArguments(folder))
  let server = running.start(programs.kubeApiserver, args)
  const agent = new Agent({ ca: authority.cert, keepAlive: true, maxSockets: 4 })
  const ask: Ask = (method, path, body) => exchange(agent, method, path, body)
  const ready = async (): Promise<void> => Promise.race([isReady(ask), running.ended])
  await ready()
  const relay = new Relay(PORTS.server)
  const log = new AuditReader(join(folder, 'audit.log'))
  const known = new Set<string>()
  return {
    ca: authority.cert,
    // default/kubernetes; with --endpoint-reconciler-type=none it has no slice.
    ownObjects: 1,
    ended: running.ended,
    async put(kind, { metadata, ...rest }) {
      const { name, namespace = '' } = metadata as { name: string; namespace?: string } // as dev/api-server/generate.ts makes them
      // The server chooses the uid of an object.
      const object = { ...TYPES[kind], metadata: { ...(metadata as Json), uid: undefined }, ...rest }
      const collection = COLLECTIONS[kind](namespace)
      if (namespace !== '' && !known.has(namespace)) {
        await must(ask, 'POST', '/api/v1/namespaces', { metadata: { name: namespace } })
        known.add(namespace)
      }
      const path = `${collection}/${name}`
      if (known.has(path)) await must(ask, 'PUT', path, object)
      else await must(ask, 'POST', collection, object)
      known.add(path)
    },
    open: async () => `https://127.0.0.1:${await relay.open()}`,
    close: () => relay.close(),
    async forget() {
      // Its watch cache begins with the present version again. Killed, it ends no watch in the log.
      await running.kill(server)
      server = running.start(programs.kubeApiserver, args)
      await ready()
      log.read().endWatches()
    },
    refuseStreaming: undefined,
    reset: () => relay.reset(),
    async requests() {
      await sleep(LOG_MS)
      return log.read().requests
    },
    watchCount: async () => log.read().watchCount,
    connectionCount: () => relay.connections,
    bytesSent: () => relay.bytes,
    stop: () => running.stop(),
  }
}

const etcdArguments = (folder: string): readonly string[] => [
  `--data-dir=${join(folder, 'etcd')}`,
  `--listen-client-urls=http://127.0.0.1:${PORTS.etcd}`,
  `--advertise-client-urls=http://127.0.0.1:${PORTS.etcd}`,
  `--listen-peer-urls=http://127.0.0.1:${PORTS.peers}`,
  `--initial-advertise-peer-urls=http://127.0.0.1:${PORTS.peers}`,
  `--initial-cluster=default=http://127.0.0.1:${PORTS.peers}`,
  '--quota-backend-bytes=8000000000',
  '--unsafe-no-fsync',
]

function serverArguments(folder: string, { cert, key }: { cert: string; key: string }): readonly string[] {
  const file = (name: string, content: string): string => {
    writeFileSync(join(folder, name), content, { mode: 0o600 })
    return join(folder, name)
  }
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const pem = {
    private: privateKey.export({ type: 'pkcs1', format: 'pem' }),
    public: publicKey.export({ type: 'spki', format: 'pem' }),
  }
  const tokens = `${OWN_TOKEN},writer,1,system:masters\n${CLIENT_TOKEN},${CLIENT},2,"${CLIENT_GROUPS}"\n`
  return [
    `--etcd-servers=http://127.0.0.1:${PORTS.etcd}`,
    '--bind-address=127.0.0.1',
    '--advertise-address=192.0.2.1',
    `--secure-port=${PORTS.server}`,
    '--endpoint-reconciler-type=none',
    `--tls-cert-file=${file('server.crt', cert)}`,
    `--tls-private-key-file=${file('server.key', key)}`,
    '--service-account-issuer=https://api-load',
    `--service-account-signing-key-file=${file('sa.key', String(pem.private))}`,
    `--service-account-key-file=${file('sa.pub', String(pem.public))}`,
    '--service-cluster-ip-range=10.96.0.0/12',
    '--disable-admission-plugins=ServiceAccount',
    '--authorization-mode=AlwaysAllow',
    `--token-auth-file=${file('tokens.csv', tokens)}`,
    `--audit-policy-file=${file('audit.json', JSON.stringify(auditPolicy(CLIENT)))}`,
    `--audit-log-path=${join(folder, 'audit.log')}`,
    '--audit-log-maxsize=10000',
  ]
}

/** The programs; each writes a log. When one ends that nobody has ended, so does the run. */
class Programs {
  readonly #folder: string
  readonly #running = new Set<ChildProcess>()
  readonly ended: Promise<never>
  #fail: (error: Error) => void = () => undefined

  constructor(folder: string) {
    this.#folder = folder
    this.ended = new Promise((_, reject) => {
      this.#fail = reject
    })
    this.ended.catch(() => undefined)
  }

  start(program: string, args: readonly string[]): ChildProcess {
    const path = join(this.#folder, `${program.split('/').at(-1)}.log`)
    const log = openSync(path, 'a')
    const child = spawn(program, args, { stdio: ['ignore', log, log] })
    closeSync(log)
    this.#running.add(child)
    child.once('error', this.#fail)
    child.once('exit', (code, signal) => {
      if (!this.#running.delete(child)) return
      this.#fail(
        new Error(`${program} ended with ${signal ?? `code ${code}`}:\n${tail(readFileSync(path, 'utf8'), 5)}`),
      )
    })
    return child
  }

  async kill(child: ChildProcess): Promise<void> {
    if (!this.#running.delete(child)) return
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }

  stop(): void {
    for (const child of this.#running) void this.kill(child)
  }
}

/** Follows the audit log; there is none before the first event. */
class AuditReader {
  readonly #path: string
  readonly #log = new AuditLog(performance.timeOrigin)
  readonly #buffer = Buffer.alloc(1 << 20)
  #position = 0

  constructor(path: string) {
    this.#path = path
  }

  read(): AuditLog {
    if (!existsSync(this.#path)) return this.#log
    const file = openSync(this.#path, 'r')
    try {
      for (;;) {
        const length = readSync(file, this.#buffer, 0, this.#buffer.length, this.#position)
        if (length === 0) return this.#log
        this.#position += length
        this.#log.read(this.#buffer.toString('latin1', 0, length))
      }
    } finally {
      closeSync(file)
    }
  }
}

interface Reply {
  readonly status: number
  readonly body: string
}
type Ask = (method: string, path: string, body?: object) => Promise<Reply>

async function isReady(ask: Ask): Promise<void> {
  const deadlineMs = performance.now() + READY_MS
  while ((await ask('GET', '/readyz').catch(() => undefined))?.status !== 200) {
    if (performance.now() > deadlineMs) throw new Error(`kube-apiserver is not ready after ${READY_MS} ms`)
    await sleep(200)
  }
  say('kube-apiserver is ready.')
}

async function must(ask: Ask, method: string, path: string, body: object): Promise<void> {
  const answer = await ask(method, path, body)
  if (answer.status >= 300) throw new Error(`${method} ${path} was answered with ${answer.status}: ${answer.body}`)
}

function exchange(agent: Agent, method: string, path: string, body?: object): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${OWN_TOKEN}`, 'content-type': 'application/json' }
    const to = { agent, method, path, headers, host: '127.0.0.1', port: PORTS.server, timeout: ANSWER_MS }
    const sent = request(to, (answer) => {
      let text = ''
      answer.on('data', (chunk) => (text += chunk))
      answer.on('error', reject)
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body: text }))
    })
    sent.on('timeout', () => sent.destroy(new Error(`${method} ${path} was not answered within ${ANSWER_MS} ms`)))
    sent.on('error', reject)
    sent.end(body === undefined ? undefined : JSON.stringify(body))
  })
}
