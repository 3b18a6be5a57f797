/**
 * Commands and attributes of the IPVS generic netlink family, named as in linux/ip_vs.h.
 * What could break: these are wire values, counted through the enums of that header.
 */
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
export const IPVS_INFO_ATTR = { VERSION: 1, CONN_TAB_SIZE: 2 } as const

/** sizeof(union nf_inet_addr): addresses of both families travel in 16 bytes, IPv4 in the first four. */
export const ADDRESS_BYTES = 16
