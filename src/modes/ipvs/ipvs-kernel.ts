/** The kernel side of ipvs mode: opens the connections and tables, and checks what the kernel has. */
import { openNetlinkConnection, openRtnetlink } from '../../../native/open.ts'
import type { FlowTable } from '../../conntrack/connection.ts'
import { AddressTable } from '../../ipvs/addresses.ts'
import { IpvsConnection } from '../../ipvs/connection.ts'
import { DeviceTable } from '../../ipvs/device.ts'
import { VirtualServerTable } from '../../ipvs/table.ts'
import type { VirtualServerFields } from '../../ipvs/types.ts'
import { NETLINK_GENERIC } from '../../netlink/constants.ts'
import type { RtnetlinkConnection } from '../../netlink/rtnetlink.ts'
import type { Cidr } from '../../values/cidr.ts'
import { CodedError } from '../../values/errors.ts'
import type { IpvsTables } from './dataplane.ts'
import { LateConntrack } from '../late-conntrack.ts'

export interface IpvsKernel {
  readonly ipvs: IpvsConnection
  /** Its own connection: a change never waits for a list of the audit. */
  readonly auditIpvs: IpvsConnection
  readonly rtnetlink: RtnetlinkConnection
  /** Its own connection, as `auditIpvs`. */
  readonly auditRtnetlink: RtnetlinkConnection
  readonly conntrack: FlowTable
  readonly tables: IpvsTables
  close(): void
}

/** Opens everything. Rejects with `ipvs-missing`, which names the module, when the kernel has no IPVS. */
export async function openIpvsKernel(excluded: readonly Cidr[], signal: AbortSignal): Promise<IpvsKernel> {
  const ipvs = await openIpvs(signal)
  const auditIpvs = await openIpvs(signal)
  const rtnetlink = openRtnetlink()
  const auditRtnetlink = openRtnetlink()
  const conntrack = new LateConntrack()
  return {
    ipvs,
    auditIpvs,
    rtnetlink,
    auditRtnetlink,
    conntrack,
    tables: {
      virtualServers: new VirtualServerTable(ipvs, excluded),
      device: new DeviceTable(rtnetlink),
      addresses: new AddressTable(rtnetlink),
    },
    close() {
      ipvs.close()
      auditIpvs.close()
      rtnetlink.close()
      auditRtnetlink.close()
      conntrack.close()
    },
  }
}

/** A connection to IPVS. Rejects with `ipvs-missing`, which names the module. */
export async function openIpvs(signal: AbortSignal): Promise<IpvsConnection> {
  try {
    return await IpvsConnection.open(openNetlinkConnection(NETLINK_GENERIC), { signal })
  } catch (cause) {
    throw explainMissingIpvs(cause)
  }
}

/** Names the module to load when the generic netlink family is not there; any other error stays as it is. */
export function explainMissingIpvs(cause: unknown): unknown {
  if (!(cause instanceof CodedError && cause.code === 'genl-family-missing')) return cause
  return new CodedError('ipvs-missing', 'the kernel has no IPVS: load the module "ip_vs" (modprobe ip_vs)', { cause })
}

/** Address and port for documentation (RFC 5737), as kube-proxy's own check uses them. */
const PROBE: Omit<VirtualServerFields, 'scheduler'> = {
  family: 'IPv4',
  address: '198.51.100.0',
  port: 20_000,
  protocol: 'tcp',
  flags: 0,
  timeoutSeconds: 0,
  netmask: 0xffffffff,
  persistenceEngine: '',
}

/**
 * Makes sure that the kernel has the scheduler, by making a virtual server with it and deleting that again; the kernel
 * loads the module when it can. Rejects with `module-missing`, which names the module.
 */
export async function checkScheduler(ipvs: IpvsConnection, scheduler: string, signal: AbortSignal): Promise<void> {
  const services = await ipvs.listServices({ signal })
  if (services.some((service) => service.fields.scheduler === scheduler)) return
  const batch = ipvs.batch()
  batch.addService({ ...PROBE, scheduler })
  const [added] = await batch.commit({ signal })
  if (added !== undefined && added.code !== 'EEXIST') {
    if (added.code !== 'ENOENT') throw added
    const message = `the kernel has no scheduler "${scheduler}": load the module "ip_vs_${scheduler}" (modprobe ip_vs_${scheduler}) or set ipvs.scheduler to one it has`
    throw new CodedError('module-missing', message, { cause: added })
  }
  batch.deleteService(PROBE)
  const [deleted] = await batch.commit({ signal })
  if (deleted !== undefined) throw deleted
}
