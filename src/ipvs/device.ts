/**
 * The link kube-ipvs0 in the kernel: the io of DEVICE. The device is never set up or configured:
 * other programs (Calico, MetalLB) expect it that way, and its addresses have their local routes
 * nevertheless.
 * @impure
 */
import type { RtnetlinkConnection } from '../netlink/rtnetlink.ts'
import type { TableIo } from '../sync/table.ts'
import { asError, CodedError } from '../values/errors.ts'
import { DEVICE, DEVICE_KIND, type Device, type DeviceOperation } from './address-diff.ts'
import { SERVICE_DEVICE } from '../values/well-known.ts'

/** The requests that the table makes. */
type LinkRequests = Pick<RtnetlinkConnection, 'getLink' | 'createDummy' | 'deleteLink'>

export class DeviceTable implements TableIo<Device, DeviceOperation> {
  readonly kind = DEVICE
  readonly #rtnetlink: LinkRequests

  constructor(rtnetlink: LinkRequests) {
    this.#rtnetlink = rtnetlink
  }

  /** A link of that name and another kind belongs to another program. */
  isOurs(_key: string, live: Device): boolean {
    return live.kind === DEVICE_KIND
  }

  async list(_keys: readonly string[] | 'all', signal: AbortSignal): Promise<Map<string, Device>> {
    const link = await this.#rtnetlink.getLink(SERVICE_DEVICE, { signal })
    return new Map(link === undefined ? [] : [[SERVICE_DEVICE, { kind: link.kind }]])
  }

  async apply(ops: readonly DeviceOperation[], signal: AbortSignal): Promise<readonly (Error | undefined)[]> {
    const outcomes: (Error | undefined)[] = []
    for (const op of ops) outcomes.push(await this.#applyOne(op, signal))
    return outcomes
  }

  async #applyOne(op: DeviceOperation, signal: AbortSignal): Promise<Error | undefined> {
    try {
      if (op.kind === 'create-device') await this.#rtnetlink.createDummy(SERVICE_DEVICE, { signal })
      else {
        const link = await this.#rtnetlink.getLink(SERVICE_DEVICE, { signal })
        if (link !== undefined) await this.#rtnetlink.deleteLink(link.index, { signal })
      }
      return undefined
    } catch (error) {
      signal.throwIfAborted()
      return deviceError(error)
    }
  }
}

/**
 * EOPNOTSUPP: the kernel has no dummy devices. EEXIST: another program was faster, or a link has
 * the name as an alternative name.
 */
function deviceError(error: unknown): Error {
  const cause = asError(error)
  switch (error instanceof CodedError ? error.code : undefined) {
    case 'EOPNOTSUPP':
      return new CodedError('module-missing', NO_DUMMY, { cause })
    case 'EEXIST':
      return new CodedError('device-name-taken', NAME_TAKEN, { cause })
    default:
      return cause
  }
}

const NO_DUMMY = 'the kernel has no dummy devices: load the module "dummy" (modprobe dummy)'
const NAME_TAKEN = `the name ${SERVICE_DEVICE} is taken; where no link has it, it is an alternative name of one: ip link property del dev LINK altname ${SERVICE_DEVICE}`
