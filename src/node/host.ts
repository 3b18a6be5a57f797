/**
 * Facts about the host: release of the kernel, IP families, processors, name servers, distribution.
 * Nothing is decided from the release of a kernel where the kernel can be asked what it offers.
 * @impure
 */
import { existsSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { availableParallelism, release } from 'node:os'
import { parseAddress } from '../values/address.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import { distributionsOf, type ModuleHost } from './module-remedy.ts'

/** `7.2.13`, as uname -r prints it. */
export function kernelRelease(): string {
  return release()
}

/**
 * The IP families of the kernel, including one that is not served (families.ts): an earlier proxy
 * may have served it and left its state behind.
 */
export function ipFamilies(): readonly IpFamily[] {
  return existsSync('/proc/net/if_inet6') ? IP_FAMILIES : ['IPv4']
}

/**
 * Number of online processors of the machine, even if this process may use only some of them
 * (k/k#99225).
 * @param root put before the path, for tests
 */
export function processorCount(root = ''): number {
  try {
    // A list of ranges: `0-3,5`.
    const ranges = readFileSync(`${root}/sys/devices/system/cpu/online`, 'utf8').trim().split(',')
    const count = ranges.reduce((sum, range) => {
      const [first = Number.NaN, last = first] = range.split('-').map(Number)
      return sum + last - first + 1
    }, 0)
    if (count >= 1) return count
  } catch {
    // /sys may not be mounted.
  }
  return availableParallelism()
}

/** Files that this process may have open at one time; Node has raised the soft limit to the hard one. */
export function openFilesLimit(): number {
  const [, limit] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
  return limit === undefined ? Number.POSITIVE_INFINITY : Number(limit)
}

/** Whether a module with parameters is loaded, or built into the kernel. Loads nothing. */
export function isModuleThere(name: string): boolean {
  return existsSync(`/sys/module/${name}`)
}

/** Canonical addresses of the `nameserver` lines of a resolv.conf(5); none if the file does not exist. */
export async function readNameservers(path: string): Promise<readonly string[]> {
  try {
    return nameserversOf(await readFile(path, 'utf8'))
  } catch {
    return []
  }
}

/** The same from the text of the file. */
export function nameserversOf(text: string): readonly string[] {
  return text.split('\n').flatMap((line) => {
    const written = /^nameserver\s+([^\s%]+)/.exec(line)?.[1]
    return written === undefined ? [] : (parseAddress(written) ?? [])
  })
}

/**
 * The running kernel and the distribution of this node. Files in a Pod are those of an image; where
 * the kernel does not name its distribution, every family counts there.
 */
export function thisHost(env: NodeJS.ProcessEnv = process.env): ModuleHost {
  const release = kernelRelease()
  return { release, distributions: distributionsOf(isInPod(env) ? '' : readOsRelease(), release) }
}

const isInPod = (env: NodeJS.ProcessEnv): boolean => env['KUBERNETES_SERVICE_HOST'] !== undefined

function readOsRelease(): string {
  for (const path of ['/etc/os-release', '/usr/lib/os-release'])
    try {
      return readFileSync(path, 'utf8')
    } catch {
      // The next one, or a system without either.
    }
  return ''
}
