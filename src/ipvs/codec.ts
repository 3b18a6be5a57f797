/**
 * The rest of the IPVS family on the wire: message header, timeouts (config), version and size (info), sync daemons.
 * Services, destinations and statistics have files of their own beside this one.
 * What could break: a command's reply carries another command (GET_CONFIG is answered by SET_CONFIG, GET_INFO by SET_INFO).
 */
import type { MessageBatch } from '../netlink/batch.ts'
import { NLM_F_DUMP } from '../netlink/constants.ts'
import { netlinkError } from '../netlink/errors.ts'
import { beginGeneric, genericAttributes } from '../netlink/generic-codec.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { familyOf, readAddress, writeAddress } from '../values/address.ts'
import {
  IPVS_CMD,
  IPVS_CMD_ATTR,
  IPVS_DAEMON_ATTR,
  IPVS_GENL_VERSION,
  IPVS_INFO_ATTR,
  type IpvsCommand,
} from './codec-constants.ts'

/** Connection timeouts in seconds (struct ip_vs_timeout_user). In a request 0 leaves a timeout as it is. */
export interface Timeouts {
  readonly tcpSeconds: number
  readonly tcpFinSeconds: number
  readonly udpSeconds: number
}

/** Answer to IPVS_CMD_GET_INFO. */
export interface IpvsInfo {
  /** `1.2.1` */
  readonly version: string
  /** Buckets of the connection table. */
  readonly connectionTableSize: number
}

/** IP_VS_STATE_MASTER 1, IP_VS_STATE_BACKUP 2 */
export type DaemonState = 'master' | 'backup'

/** A connection synchronisation daemon. Fields left out of a request take the kernel's defaults. */
export interface SyncDaemon {
  readonly state: DaemonState
  /** Name of the interface it sends or listens on. */
  readonly interfaceName: string
  /** 0 to 255 */
  readonly syncId: number
  /** Largest UDP payload in bytes */
  readonly maxPayloadBytes?: number
  /** Multicast address, IPv4 or IPv6 */
  readonly group?: string
  readonly port?: number
  readonly ttl?: number
}

const STATE_NUMBER: Readonly<Record<DaemonState, number>> = { master: 1, backup: 2 }

/** Starts an IPVS message; `IPVS_CMD_…` is its name in errors. */
export function beginIpvs(
  batch: MessageBatch,
  familyId: number,
  command: IpvsCommand,
  mode: 'do' | 'dump' = 'do',
): void {
  beginGeneric(
    batch,
    familyId,
    IPVS_CMD[command],
    IPVS_GENL_VERSION,
    mode === 'dump' ? NLM_F_DUMP : 0,
    OPERATION[command],
  )
}

const OPERATION: Readonly<Record<IpvsCommand, string>> = {
  NEW_SERVICE: 'IPVS_CMD_NEW_SERVICE',
  SET_SERVICE: 'IPVS_CMD_SET_SERVICE',
  DEL_SERVICE: 'IPVS_CMD_DEL_SERVICE',
  GET_SERVICE: 'IPVS_CMD_GET_SERVICE',
  NEW_DEST: 'IPVS_CMD_NEW_DEST',
  SET_DEST: 'IPVS_CMD_SET_DEST',
  DEL_DEST: 'IPVS_CMD_DEL_DEST',
  GET_DEST: 'IPVS_CMD_GET_DEST',
  NEW_DAEMON: 'IPVS_CMD_NEW_DAEMON',
  DEL_DAEMON: 'IPVS_CMD_DEL_DAEMON',
  GET_DAEMON: 'IPVS_CMD_GET_DAEMON',
  SET_CONFIG: 'IPVS_CMD_SET_CONFIG',
  GET_CONFIG: 'IPVS_CMD_GET_CONFIG',
  SET_INFO: 'IPVS_CMD_SET_INFO',
  GET_INFO: 'IPVS_CMD_GET_INFO',
  ZERO: 'IPVS_CMD_ZERO',
  FLUSH: 'IPVS_CMD_FLUSH',
}

/** Attributes of SET_CONFIG. */
export function encodeTimeouts(batch: MessageBatch, timeouts: Timeouts): void {
  batch.u32(IPVS_CMD_ATTR.TIMEOUT_TCP, timeouts.tcpSeconds)
  batch.u32(IPVS_CMD_ATTR.TIMEOUT_TCP_FIN, timeouts.tcpFinSeconds)
  batch.u32(IPVS_CMD_ATTR.TIMEOUT_UDP, timeouts.udpSeconds)
}

/** Reads the answer to GET_CONFIG. A kernel built without TCP or UDP support leaves theirs out: 0. */
export function decodeTimeouts(message: ReceivedMessage): Timeouts {
  const attributes = genericAttributes(message, IPVS_CMD.SET_CONFIG, 'IPVS_CMD_GET_CONFIG')
  let [tcpSeconds, tcpFinSeconds, udpSeconds] = [0, 0, 0]
  while (attributes.next()) {
    if (attributes.type === IPVS_CMD_ATTR.TIMEOUT_TCP) tcpSeconds = attributes.u32()
    else if (attributes.type === IPVS_CMD_ATTR.TIMEOUT_TCP_FIN) tcpFinSeconds = attributes.u32()
    else if (attributes.type === IPVS_CMD_ATTR.TIMEOUT_UDP) udpSeconds = attributes.u32()
  }
  return { tcpSeconds, tcpFinSeconds, udpSeconds }
}

/** Reads the answer to GET_INFO. */
export function decodeInfo(message: ReceivedMessage): IpvsInfo {
  const attributes = genericAttributes(message, IPVS_CMD.SET_INFO, 'IPVS_CMD_GET_INFO')
  let version: number | undefined
  let connectionTableSize: number | undefined
  while (attributes.next()) {
    if (attributes.type === IPVS_INFO_ATTR.VERSION) version = attributes.u32()
    else if (attributes.type === IPVS_INFO_ATTR.CONN_TAB_SIZE) connectionTableSize = attributes.u32()
  }
  if (version === undefined || connectionTableSize === undefined)
    throw netlinkError('netlink-malformed', 'IPVS info that lacks a field')
  return { version: `${(version >>> 16) & 0xff}.${(version >>> 8) & 0xff}.${version & 0xff}`, connectionTableSize }
}

/** Attributes of NEW_DAEMON. */
export function encodeDaemon(batch: MessageBatch, daemon: SyncDaemon): void {
  const nest = batch.nest(IPVS_CMD_ATTR.DAEMON)
  batch.u32(IPVS_DAEMON_ATTR.STATE, STATE_NUMBER[daemon.state])
  batch.string(IPVS_DAEMON_ATTR.MCAST_IFN, daemon.interfaceName)
  batch.u32(IPVS_DAEMON_ATTR.SYNC_ID, daemon.syncId)
  if (daemon.maxPayloadBytes !== undefined) batch.u16(IPVS_DAEMON_ATTR.SYNC_MAXLEN, daemon.maxPayloadBytes)
  if (daemon.group !== undefined) {
    if (familyOf(daemon.group) === 'IPv4') batch.written(IPVS_DAEMON_ATTR.MCAST_GROUP, 4, writeAddress, daemon.group)
    else batch.written(IPVS_DAEMON_ATTR.MCAST_GROUP6, 16, writeAddress, daemon.group)
  }
  // Unlike every other port of this family it travels in host byte order.
  if (daemon.port !== undefined) batch.u16(IPVS_DAEMON_ATTR.MCAST_PORT, daemon.port)
  if (daemon.ttl !== undefined) batch.u8(IPVS_DAEMON_ATTR.MCAST_TTL, daemon.ttl)
  batch.endNest(nest)
}

/** Attributes of DEL_DAEMON. */
export function encodeDaemonState(batch: MessageBatch, state: DaemonState): void {
  const nest = batch.nest(IPVS_CMD_ATTR.DAEMON)
  batch.u32(IPVS_DAEMON_ATTR.STATE, STATE_NUMBER[state])
  batch.endNest(nest)
}

/** Reads a NEW_DAEMON message (a line of a dump). */
export function decodeDaemon(message: ReceivedMessage): SyncDaemon {
  const outer = genericAttributes(message, IPVS_CMD.NEW_DAEMON, 'IPVS_CMD_GET_DAEMON')
  const daemon: { -readonly [field in keyof SyncDaemon]?: SyncDaemon[field] } = {}
  while (outer.next()) {
    if (outer.type !== IPVS_CMD_ATTR.DAEMON) continue
    const attributes = outer.nested()
    while (attributes.next()) {
      if (attributes.type === IPVS_DAEMON_ATTR.STATE) daemon.state = daemonState(attributes.u32())
      else if (attributes.type === IPVS_DAEMON_ATTR.MCAST_IFN) daemon.interfaceName = attributes.string()
      else if (attributes.type === IPVS_DAEMON_ATTR.SYNC_ID) daemon.syncId = attributes.u32()
      else if (attributes.type === IPVS_DAEMON_ATTR.SYNC_MAXLEN) daemon.maxPayloadBytes = attributes.u16()
      else if (attributes.type === IPVS_DAEMON_ATTR.MCAST_PORT) daemon.port = attributes.u16()
      else if (attributes.type === IPVS_DAEMON_ATTR.MCAST_TTL) daemon.ttl = attributes.u8()
      else if (attributes.type === IPVS_DAEMON_ATTR.MCAST_GROUP) {
        attributes.expect(4)
        daemon.group = readAddress(attributes.bytes, attributes.offset, 'IPv4')
      } else if (attributes.type === IPVS_DAEMON_ATTR.MCAST_GROUP6) {
        attributes.expect(16)
        daemon.group = readAddress(attributes.bytes, attributes.offset, 'IPv6')
      }
    }
  }
  const { state, interfaceName, syncId, ...rest } = daemon
  if (state === undefined || interfaceName === undefined || syncId === undefined)
    throw netlinkError('netlink-malformed', 'IPVS daemon message that lacks a field')
  return { state, interfaceName, syncId, ...rest }
}

function daemonState(number: number): DaemonState {
  if (number === STATE_NUMBER.master) return 'master'
  if (number === STATE_NUMBER.backup) return 'backup'
  throw netlinkError('netlink-malformed', `IPVS daemon with state ${number}`)
}
