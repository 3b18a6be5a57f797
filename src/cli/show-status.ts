/**
 * Reads what `kube-ipvs status` shows, and prints it.
 * What could break: nothing here may change the kernel, not even by loading a module that is not there.
 */
import { readFile } from 'node:fs/promises'
import { openIpset } from '../dataplane/guard-kernel.ts'
import { chooseBackEnd } from '../dataplane/iptables-back-end.ts'
import { openIpvsKernel, type IpvsKernel } from '../dataplane/ipvs-kernel.ts'
import { SERVICE_DEVICE } from '../ipvs/address-diff.ts'
import { definitionOf, MAX_ELEMENTS } from '../ipset/catalogue.ts'
import { ipFamilies, kernelRelease } from '../node/host.ts'
import { CodedError } from '../values/errors.ts'
import type { FlagValues } from './flags.ts'
import { type SetsStatus, type Status, statusText, type VirtualServerStatus, virtualServerStatus } from './status.ts'
import { styleFor } from './style.ts'
import { VERSION } from '../daemon/version.ts'

export async function showStatus(flags: FlagValues): Promise<number> {
  const signal = AbortSignal.timeout(30_000)
  const kernel = await openIpvsKernel([], signal)
  try {
    const status = await readStatus(kernel, signal)
    if (flags.output === 'json') process.stdout.write(`${JSON.stringify(status)}\n`)
    else process.stdout.write(`${statusText(status, styleFor(process.stdout, process.env)).join('\n')}\n`)
    return 0
  } finally {
    kernel.close()
  }
}

async function readStatus({ ipvs, rtnetlink }: IpvsKernel, signal: AbortSignal): Promise<Status> {
  const services = await ipvs.listServices({ signal })
  const virtualServers: VirtualServerStatus[] = []
  for (const service of services)
    if (service.kind === 'address')
      virtualServers.push(virtualServerStatus(service.fields, await ipvs.listDestinations(service.fields, { signal })))
  const [info, timeouts, link] = [
    await ipvs.info({ signal }),
    await ipvs.getTimeouts({ signal }),
    await rtnetlink.getLink(SERVICE_DEVICE, { signal }),
  ]
  const addresses = link === undefined ? [] : await rtnetlink.listAddresses({ interfaceIndex: link.index, signal })
  return {
    mode: 'ipvs',
    version: VERSION,
    kernel: kernelRelease(),
    ipvsVersion: info.version,
    device:
      link === undefined
        ? null
        : { kind: link.kind, addresses: addresses.map(({ address, prefixLength }) => `${address}/${prefixLength}`) },
    ipv6Forwarding: await readFlag('/proc/sys/net/ipv6/conf/all/forwarding'),
    iptables: await readIptables(signal),
    sets: await readSets(signal),
    timeoutsSeconds: { tcp: timeouts.tcpSeconds, tcpFin: timeouts.tcpFinSeconds, udp: timeouts.udpSeconds },
    virtualServers: virtualServers.sort((a, b) => (a.key < b.key ? -1 : 1)),
    fwmarkVirtualServers: services.filter((service) => service.kind === 'fwmark').length,
  }
}

async function readIptables(signal: AbortSignal): Promise<Status['iptables']> {
  try {
    const { mode, reason } = await chooseBackEnd(ipFamilies(), signal, { mayLoadModules: false })
    return { backEnd: mode, reason }
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    return { backEnd: null, reason: error.message }
  }
}

async function readSets(signal: AbortSignal): Promise<SetsStatus | null> {
  try {
    const ipset = await openIpset(signal)
    const sets = (await ipset.listSets({ signal })).filter(({ name }) => definitionOf(name) !== undefined)
    ipset.close()
    const grown = sets.filter(({ maxElements }) => maxElements > MAX_ELEMENTS)
    return {
      count: sets.length,
      entries: sets.reduce((sum, { elements }) => sum + elements, 0),
      grown: grown.map(({ name, maxElements }) => ({ name, maxElements })),
    }
  } catch (error) {
    if (error instanceof CodedError && error.code === 'ipset-missing') return null
    throw error
  }
}

async function readFlag(file: string): Promise<boolean | null> {
  try {
    return (await readFile(file, 'utf8')).trim() !== '0'
  } catch {
    // The kernel has no IPv6.
    return null
  }
}
