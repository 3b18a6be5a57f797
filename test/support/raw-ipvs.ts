/**
 * IPVS services and destinations with numbers that the program itself never writes, as another
 * program may make them.
 */
import { openNetlinkConnection } from '../../native/open.ts'
import { ADDRESS_BYTES, IPVS_CMD_ATTR, IPVS_DEST_ATTR, IPVS_GENL_NAME, IPVS_SVC_ATTR } from '../../src/ipvs/codec.ts'
import { beginIpvs } from '../../src/ipvs/batch.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import { NETLINK_GENERIC } from '../../src/netlink/constants.ts'
import { resolveFamily } from '../../src/netlink/subsystems.ts'
import { writeAddress } from '../../src/values/address.ts'

const AF_INET = 2

/** An IPv4 service; `protocol` is the number of an IP protocol, 50 for ESP. */
export interface RawService {
  readonly address: string
  readonly port: number
  readonly protocol: number
}

/** Makes a service with the scheduler rr (IPVS_CMD_NEW_SERVICE). Rejects with the kernel's error. */
export function addRawService(service: RawService): Promise<void> {
  return command('NEW_SERVICE', (batch) => {
    const nest = batch.nest(IPVS_CMD_ATTR.SERVICE)
    putId(batch, service)
    batch.string(IPVS_SVC_ATTR.SCHED_NAME, 'rr')
    batch.u32Pair(IPVS_SVC_ATTR.FLAGS, 0, 0xffffffff)
    batch.u32(IPVS_SVC_ATTR.TIMEOUT, 0)
    batch.u32be(IPVS_SVC_ATTR.NETMASK, 0xffffffff)
    batch.endNest(nest)
  })
}

/** Makes a destination with weight 1 (IPVS_CMD_NEW_DEST); `forwarding` is a number of IP_VS_CONN_F_FWD_MASK, 0 to 7. */
export function addRawDestination(
  service: RawService,
  address: string,
  port: number,
  forwarding: number,
): Promise<void> {
  return command('NEW_DEST', (batch) => {
    const id = batch.nest(IPVS_CMD_ATTR.SERVICE)
    putId(batch, service)
    batch.endNest(id)
    const nest = batch.nest(IPVS_CMD_ATTR.DEST)
    batch.u16(IPVS_DEST_ATTR.ADDR_FAMILY, AF_INET)
    batch.written(IPVS_DEST_ATTR.ADDR, ADDRESS_BYTES, writeAddress, address)
    batch.u16be(IPVS_DEST_ATTR.PORT, port)
    batch.u32(IPVS_DEST_ATTR.FWD_METHOD, forwarding)
    batch.u32(IPVS_DEST_ATTR.WEIGHT, 1)
    batch.u32(IPVS_DEST_ATTR.U_THRESH, 0)
    batch.u32(IPVS_DEST_ATTR.L_THRESH, 0)
    batch.endNest(nest)
  })
}

/** Whether the kernel has such a service. */
export async function hasRawService(service: RawService): Promise<boolean> {
  try {
    await command('ZERO', (batch) => {
      const nest = batch.nest(IPVS_CMD_ATTR.SERVICE)
      putId(batch, service)
      batch.endNest(nest)
    })
    return true
  } catch {
    return false
  }
}

function putId(batch: MessageBatch, { address, port, protocol }: RawService): void {
  batch.u16(IPVS_SVC_ATTR.AF, AF_INET)
  batch.u16(IPVS_SVC_ATTR.PROTOCOL, protocol)
  batch.written(IPVS_SVC_ATTR.ADDR, ADDRESS_BYTES, writeAddress, address)
  batch.u16be(IPVS_SVC_ATTR.PORT, port)
}

async function command(
  name: 'NEW_SERVICE' | 'NEW_DEST' | 'ZERO',
  encode: (batch: MessageBatch) => void,
): Promise<void> {
  const netlink = openNetlinkConnection(NETLINK_GENERIC)
  try {
    const batch = new MessageBatch(256)
    beginIpvs(batch, await resolveFamily(netlink, IPVS_GENL_NAME), name)
    encode(batch)
    batch.end()
    const [error] = await netlink.transact(batch)
    if (error !== undefined) throw error
  } finally {
    netlink.close()
  }
}
