/**
 * The rest of the IPVS family on the wire: message header, timeouts (config), version and size (info). Services, destinations
 * and statistics have files of their own beside this one. The kernel answers GET_CONFIG with SET_CONFIG and GET_INFO with SET_INFO.
 */
import type { MessageBatch } from '../netlink/batch.ts'
import { NLM_F_DUMP } from '../netlink/constants.ts'
import { netlinkError } from '../netlink/errors.ts'
import { beginGeneric, genericAttributes } from '../netlink/generic-codec.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { IPVS_CMD, IPVS_CMD_ATTR, IPVS_GENL_VERSION, IPVS_INFO_ATTR, type IpvsCommand } from './codec-constants.ts'

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
  SET_CONFIG: 'IPVS_CMD_SET_CONFIG',
  GET_CONFIG: 'IPVS_CMD_GET_CONFIG',
  SET_INFO: 'IPVS_CMD_SET_INFO',
  GET_INFO: 'IPVS_CMD_GET_INFO',
  ZERO: 'IPVS_CMD_ZERO',
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
