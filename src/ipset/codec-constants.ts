/**
 * Numbers of linux/netfilter/ipset/ip_set.h, ip_set_hash.h and ip_set_bitmap.h.
 * What could break: these are wire values. Attribute numbers are used twice: at command level and inside DATA.
 */
import type { SetType } from './catalogue.ts'

/** IPSET_PROTOCOL: what this program speaks; kernels since 4.20 do. */
export const IPSET_PROTOCOL = 7

/** enum ipset_cmd */
export const IPSET_CMD = {
  PROTOCOL: 1,
  CREATE: 2,
  DESTROY: 3,
  RENAME: 5,
  SWAP: 6,
  LIST: 7,
  ADD: 9,
  DEL: 10,
  TYPE: 13,
} as const

export type IpsetCommand = keyof typeof IPSET_CMD

/** IPSET_ATTR_* at command level */
export const IPSET_ATTR = {
  PROTOCOL: 1,
  SETNAME: 2,
  TYPENAME: 3,
  /** IPSET_ATTR_SETNAME2 of RENAME and SWAP has the number of TYPENAME. */
  SETNAME2: 3,
  REVISION: 4,
  FAMILY: 5,
  FLAGS: 6,
  DATA: 7,
  ADT: 8,
  LINENO: 9,
  PROTOCOL_MIN: 10,
  /** IPSET_ATTR_REVISION_MIN of TYPE has the number of PROTOCOL_MIN. */
  REVISION_MIN: 10,
} as const

/** IPSET_ATTR_* inside DATA: of an entry (ADT) or of a set's parameters (CREATE). */
export const IPSET_DATA = {
  IP: 1,
  PORT: 4,
  PORT_TO: 5,
  TIMEOUT: 6,
  PROTO: 7,
  CADT_FLAGS: 8,
  BITMASK: 12,
  HASHSIZE: 18,
  MAXELEM: 19,
  NETMASK: 20,
  ELEMENTS: 24,
  REFERENCES: 25,
  IP2: 20,
  CIDR2: 21,
} as const

/** IPSET_ATTR_IPADDR_* inside IP and IP2 */
export const IPSET_ATTR_IPADDR_IPV4 = 1
export const IPSET_ATTR_IPADDR_IPV6 = 2

/** IPSET_FLAG_LIST_HEADER at command level: sets without their entries. */
export const IPSET_FLAG_LIST_HEADER = 4

/** IPSET_FLAG_* of CADT_FLAGS */
export const IPSET_FLAG_NOMATCH = 0x04
export const IPSET_FLAG_WITH_COUNTERS = 0x08
export const IPSET_FLAG_WITH_COMMENT = 0x10
export const IPSET_FLAG_WITH_FORCEADD = 0x20
export const IPSET_FLAG_WITH_SKBINFO = 0x40

/**
 * Revision of each type that is asked for: the one before `bucketsize` came (Linux 5.11), which kernels since 3.18 have
 * and every ipset program since 6.22 can print. Later ones add nothing that we set.
 */
export const REVISION: Readonly<Record<SetType, number>> = {
  'hash:ip': 4,
  'hash:ip,port': 5,
  'hash:ip,port,ip': 5,
  'hash:ip,port,net': 7,
  'bitmap:port': 3,
}

/** enum ipset_errno: private errors, beyond those of errno.h. */
export const IPSET_ERRORS: Readonly<Record<number, string>> = {
  4097: 'IPSET_ERR_PROTOCOL',
  4098: 'IPSET_ERR_FIND_TYPE',
  4099: 'IPSET_ERR_MAX_SETS',
  4100: 'IPSET_ERR_BUSY',
  4101: 'IPSET_ERR_EXIST_SETNAME2',
  4102: 'IPSET_ERR_TYPE_MISMATCH',
  4103: 'IPSET_ERR_EXIST',
  4104: 'IPSET_ERR_INVALID_CIDR',
  4105: 'IPSET_ERR_INVALID_NETMASK',
  4106: 'IPSET_ERR_INVALID_FAMILY',
  4107: 'IPSET_ERR_TIMEOUT',
  4108: 'IPSET_ERR_REFERENCED',
  4109: 'IPSET_ERR_IPADDR_IPV4',
  4110: 'IPSET_ERR_IPADDR_IPV6',
  4111: 'IPSET_ERR_COUNTER',
  4112: 'IPSET_ERR_COMMENT',
  4113: 'IPSET_ERR_INVALID_MARKMASK',
  4114: 'IPSET_ERR_SKBINFO',
  4115: 'IPSET_ERR_BITMASK_NETMASK_EXCL',
}

/** Errors from IPSET_ERR_TYPE_SPECIFIC on mean something else for each kind of set. */
export const HASH_ERRORS: Readonly<Record<number, string>> = {
  4352: 'IPSET_ERR_HASH_FULL',
  4353: 'IPSET_ERR_HASH_ELEM',
  4354: 'IPSET_ERR_INVALID_PROTO',
  4355: 'IPSET_ERR_MISSING_PROTO',
  4356: 'IPSET_ERR_HASH_RANGE_UNSUPPORTED',
  4357: 'IPSET_ERR_HASH_RANGE',
}
export const BITMAP_ERRORS: Readonly<Record<number, string>> = {
  4352: 'IPSET_ERR_BITMAP_RANGE',
  4353: 'IPSET_ERR_BITMAP_RANGE_SIZE',
}
