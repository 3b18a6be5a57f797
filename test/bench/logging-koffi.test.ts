/** The tests run the package koffi of `--burst-with-probe` in another process with real netlink sockets, and read what it logs between two signals. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { answerTo, noCounts } from '../../dev/bench/own-cost/answers.ts'
import { placeKoffi } from '../../dev/bench/writes/place-koffi.ts'
import { type LoggedWrite, WRITE_LOG_VARIABLE } from '../../dev/bench/writes/write-log.ts'
import { IpvsConnection } from '../../src/ipvs/connection.ts'
import { NetlinkConnection } from '../../src/netlink/connection.ts'
import { NETLINK_GENERIC, NETLINK_ROUTE } from '../../src/netlink/constants.ts'

const LOGGING_KOFFI = join(import.meta.dirname, '../../dev/bench/writes/logging-koffi.ts')
const VIRTUAL_SERVER = { family: 'IPv4', protocol: 'tcp', address: '10.96.0.1', port: 80 } as const
const LIMITS = { forwarding: 'masquerade', upperThreshold: 0, lowerThreshold: 0 } as const
/** No kernel has a family of this number or such a message of routes: it refuses the message, which changes nothing. */
const UNKNOWN_TYPE = 0x7fff

/**
 * Sends one datagram before it is watched, one while it is, one on a socket of another protocol, and one on a socket that has got the
 * number of a closed one. It prints the times around the second.
 */
const PROGRAM = `
const { load } = require('koffi')
const library = load('libc.so.6')
const socket = library.func('int socket(int, int, int)')
const sendto = library.func('long sendto(int, void *, size_t, int, void *, uint32_t)')
const close = library.func('int close(int)')
const [unwatched, watched] = process.argv.slice(2).map((text) => Buffer.from(text, 'base64'))
const kernel = Buffer.from([16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
const send = (descriptor, bytes) => {
  const sent = sendto(descriptor, bytes, bytes.length, 0, kernel, kernel.length)
  if (sent !== bytes.length) throw new Error('sendto returned ' + sent)
}
const nowMs = () => Number(process.hrtime.bigint()) / 1e6
const signal = async () => {
  const taken = new Promise((resolve) => process.once('SIGUSR2', resolve))
  process.kill(process.pid, 'SIGUSR2')
  // A process does not wait for signals alone.
  const waiting = setTimeout(() => process.exit(1), 10_000)
  await taken
  clearTimeout(waiting)
}
const main = async () => {
  const generic = socket(16, 3, ${NETLINK_GENERIC})
  send(generic, unwatched)
  await signal()
  const beforeMs = nowMs()
  send(generic, watched)
  const afterMs = nowMs()
  close(generic)
  const route = socket(16, 3, ${NETLINK_ROUTE})
  send(route, watched)
  await signal()
  send(socket(16, 3, ${NETLINK_GENERIC}), watched)
  console.log(JSON.stringify({ beforeMs, afterMs, isReused: route === generic }))
}
main()
`

describe('koffi that keeps the log of writes', () => {
  let folder = ''
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-koffi-'))
  })
  after(() => rmSync(folder, { recursive: true }))

  it('logs what was sent on sockets of NETLINK_GENERIC while it is watched, with the time after the call', async () => {
    await placeKoffi(folder, LOGGING_KOFFI)
    const program = join(folder, 'program.cjs')
    writeFileSync(program, PROGRAM)
    const log = join(folder, 'writes')
    const datagrams = [await additionOf('10.128.0.7'), await additionOf('10.128.0.8')]
    const output = execFileSync(process.execPath, [program, ...datagrams.map((bytes) => bytes.toString('base64'))], {
      env: { ...process.env, [WRITE_LOG_VARIABLE]: log },
      encoding: 'utf8',
    })
    const { beforeMs, afterMs, isReused } = JSON.parse(output) as {
      beforeMs: number
      afterMs: number
      isReused: boolean
    }
    assert.ok(isReused, 'the second socket has another number, so that the log could tell it from the first')
    const [write, ...others] = JSON.parse(readFileSync(log, 'utf8')) as LoggedWrite[]
    assert.deepEqual([write?.virtualServer, write?.realServer, others], [0x0a600001, 0x0a800008, []])
    assert.ok(write !== undefined && write.atMs > beforeMs && write.atMs < afterMs)
  })
})

/** The datagram that adds a real server, as the program writes it, but of a type that no kernel knows. */
async function additionOf(address: string): Promise<Buffer> {
  const answers: Uint8Array[] = []
  const sent: Buffer[] = []
  const ipvs = await IpvsConnection.open(
    new NetlinkConnection({
      portId: 1,
      send: (bytes) => {
        sent.push(Buffer.from(bytes))
        answerTo(NETLINK_GENERIC, bytes, answers, noCounts())
      },
      receive: () => answers.shift(),
      onReadable: () => undefined,
      close: () => undefined,
    }),
  )
  const batch = ipvs.batch()
  batch.addDestination(VIRTUAL_SERVER, { address, port: 8080, weight: 1, ...LIMITS })
  await batch.commit()
  const datagram = sent.at(-1)
  assert.ok(datagram !== undefined)
  datagram.writeUInt16LE(UNKNOWN_TYPE, 4)
  return datagram
}
