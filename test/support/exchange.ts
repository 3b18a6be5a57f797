/**
 * Connections and datagrams between network namespaces: one request and its answer, lasting
 * connections, servers. A connection ends with a reset, because the kernel would count it for two
 * minutes after a FIN.
 */
import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { createServer, type Server, Socket } from 'node:net'
import { familyOf } from '../../src/values/address.ts'
import { deadline } from './deadline.ts'
import {
  boundSocket,
  closeSocket,
  connectError,
  type ErrorName,
  localOf,
  type Namespace,
  openSocket,
  type Place,
  receive,
  send,
  watch,
} from './net-namespace.ts'

/** Type of an ICMP or ICMPv6 message. */
const ECHO_REQUEST = { IPv4: 8, IPv6: 128 } as const

/** No answer in time, or the error of the kernel. */
export type Failure = 'nothing' | ErrorName
export interface Answer {
  readonly text: string
  /** The client's `ADDRESS PORT`. */
  readonly local: string
}

export interface Question {
  readonly namespace: Namespace
  readonly to: Place
  /** The source; with 0.0.0.0, :: and 0 the kernel chooses. */
  readonly address: string
  readonly port: number
  readonly withinMs: number
}

/** One connection or datagram, and the answer to `?`. Only TCP and SCTP themselves repeat anything. */
export async function exchange({ namespace, to, address, port, withinMs }: Question): Promise<Answer | Failure> {
  const fd = openSocket(namespace, to, address, port)
  if (typeof fd !== 'number') return fd
  if (to.protocol === 'udp' || to.protocol === 'ping') return exchangeDatagram(fd, to, withinMs)
  const failure = await connected(fd, withinMs)
  if (failure !== undefined) return failure
  const socket = streamOf(fd)
  const local = `${socket.localAddress} ${socket.localPort}`
  const answer = await answerOf(socket, withinMs)
  socket.resetAndDestroy()
  return isFailure(answer) ? answer : { text: answer, local }
}

/** An established connection. Throws with the failure in its message. */
export async function openStream(namespace: Namespace, address: string, to: Place, port: number): Promise<Socket> {
  const fd = openSocket(namespace, to, address, port)
  const failure = typeof fd === 'number' ? await connected(fd, deadline(10_000)) : fd
  if (failure !== undefined || typeof fd !== 'number') throw new Error(`${to.address} ${to.port}: ${failure}`)
  return streamOf(fd)
}

/** The same, once the other side has answered: until then nothing says that both sides have it. */
export async function openAnsweredStream(...where: Parameters<typeof openStream>): Promise<Socket> {
  const socket = await openStream(...where)
  const answer = await answerOf(socket, deadline(10_000))
  if (!isFailure(answer)) return socket
  socket.resetAndDestroy()
  throw new Error(`no answer to an established connection: ${answer}`)
}

/** Accepts connections of TCP or SCTP. */
export function listenStream(namespace: Namespace, at: Place, accepted: (socket: Socket) => void): Server {
  return createServer(accepted).listen({ fd: boundSocket(namespace, at) })
}

export function listenUdp(namespace: Namespace, at: Place): UdpSocket {
  const socket = createSocket(familyOf(at.address) === 'IPv4' ? 'udp4' : 'udp6')
  return socket.bind({ fd: boundSocket(namespace, at) })
}

function streamOf(fd: number): Socket {
  const socket = new Socket({ fd, readable: true, writable: true })
  socket.on('error', () => undefined)
  return socket
}

/**
 * Waits for the end of a connect; closes the socket when it fails. A refusal that arrived while the
 * socket was inside `connect` ends nothing: the kernel tells it when it is asked, and once only.
 */
async function connected(fd: number, withinMs: number): Promise<Failure | undefined> {
  const ended = connectError(fd) ?? (await watch(fd, { writable: true }, withinMs, () => connectError(fd) ?? true))
  if (ended === true) return undefined
  closeSocket(fd)
  return ended ?? 'nothing'
}

function answerOf(socket: Socket, withinMs: number): Promise<string> {
  return new Promise((resolve) => {
    // As in `watch`: data that has arrived by then counts.
    const timer = setTimeout(() => setImmediate(resolve, 'nothing'), withinMs)
    const end = (text: string): void => {
      clearTimeout(timer)
      resolve(text)
    }
    socket.once('data', (data) => end(String(data).trim()))
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? 'EIO'))
    socket.once('end', () => end('EPIPE'))
    socket.write('?\n')
  })
}

const isFailure = (text: string): text is Failure => text === 'nothing' || /^E[A-Z]+$/.test(text)

async function exchangeDatagram(fd: number, to: Place, withinMs: number): Promise<Answer | Failure> {
  const family = familyOf(to.address)
  const echo = new Uint8Array([ECHO_REQUEST[family], 0, 0, 0, 0, 0, 0, 1])
  const failure = send(fd, to.protocol === 'ping' ? echo : Buffer.from('?'))
  const answer = failure ?? (await watch(fd, { readable: true }, withinMs, () => receive(fd)))
  const local = localOf(fd, family)
  closeSocket(fd)
  if (answer === undefined) return 'nothing'
  return typeof answer === 'string' ? answer : { text: Buffer.from(answer).toString(), local }
}
