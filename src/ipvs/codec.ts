/**
 * The IPVS family of generic netlink on the wire (linux/ip_vs.h): commands and attributes, timeouts
 * (config), version and size (info). Services and destinations have their own file. The kernel
 * answers GET_CONFIG with SET_CONFIG and GET_INFO with SET_INFO. Written by hand: there is no
 * library for Node, and a batch must not allocate an object for each message.
 */
import type { MessageBatch } from '../netlink/batch.ts'
import { netlinkError } from '../netlink/errors.ts'
import { genericAttributes } from '../netlink/generic-codec.ts'
import type { ReceivedMessage } from '../netlink/message.ts'

export const IPVS_GENL_NAME = 'IPVS'
export const IPVS_GENL_VERSION = 1

/** Commands (IPVS_CMD_*). */
export const IPVS_CMD = {
  NEW_SERVICE: 1,
  SET_SERVICE: 2,
  DEL_SERVICE: 3,
  GET_SERVICE: 4,
  NEW_DEST: 5,
  SET_DEST: 6,
  DEL_DEST: 7,
  GET_DEST: 8,
  SET_CONFIG: 12,
  GET_CONFIG: 13,
  SET_INFO: 14,
  GET_INFO: 15,
  ZERO: 16,
} as const

export type IpvsCommand = keyof typeof IPVS_CMD

/** The names of the commands in errors, made once: a batch has thousands of them. */
export const IPVS_OPERATION = Object.fromEntries(
  Object.keys(IPVS_CMD).map((command) => [command, `IPVS_CMD_${command}`]),
) as Readonly<Record<IpvsCommand, string>> // an entry for each command

/** First level of a message (IPVS_CMD_ATTR_*). */
export const IPVS_CMD_ATTR = {
  SERVICE: 1,
  DEST: 2,
  TIMEOUT_TCP: 4,
  TIMEOUT_TCP_FIN: 5,
  TIMEOUT_UDP: 6,
} as const

/** Inside IPVS_CMD_ATTR_SERVICE (IPVS_SVC_ATTR_*). */
export const IPVS_SVC_ATTR = {
  AF: 1,
  PROTOCOL: 2,
  ADDR: 3,
  PORT: 4,
  FWMARK: 5,
  SCHED_NAME: 6,
  FLAGS: 7,
  TIMEOUT: 8,
  NETMASK: 9,
  STATS: 10,
  PE_NAME: 11,
  STATS64: 12,
} as const

/** Inside IPVS_CMD_ATTR_DEST (IPVS_DEST_ATTR_*). */
export const IPVS_DEST_ATTR = {
  ADDR: 1,
  PORT: 2,
  FWD_METHOD: 3,
  WEIGHT: 4,
  U_THRESH: 5,
  L_THRESH: 6,
  ACTIVE_CONNS: 7,
  INACT_CONNS: 8,
  PERSIST_CONNS: 9,
  STATS: 10,
  ADDR_FAMILY: 11,
  STATS64: 12,
  TUN_TYPE: 13,
  TUN_PORT: 14,
  TUN_FLAGS: 15,
} as const

/** Inside the STATS and STATS64 attributes (IPVS_STATS_ATTR_*). */
export const IPVS_STATS_ATTR = {
  CONNS: 1,
  INPKTS: 2,
  OUTPKTS: 3,
  INBYTES: 4,
  OUTBYTES: 5,
  CPS: 6,
  INPPS: 7,
  OUTPPS: 8,
  INBPS: 9,
  OUTBPS: 10,
} as const

/** Reply to GET_INFO (IPVS_INFO_ATTR_*). */
const IPVS_INFO_ATTR = { VERSION: 1, CONN_TAB_SIZE: 2 } as const

/** sizeof(union nf_inet_addr): addresses of both families have 16 bytes, IPv4 in the first four. */
export const ADDRESS_BYTES = 16

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
