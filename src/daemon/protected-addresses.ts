/**
 * Follows the addresses that this node depends on and that change without an object of the cluster:
 * those at which it reaches the API server, directly or through a proxy, and those of its
 * resolvers. Reads them at the start, and each minute while a source is open.
 */
import { lookup } from 'node:dns/promises'
import { readNameservers } from '../node/host.ts'
import type { VirtualIpGuard } from '../service/virtual-ip-guard.ts'
import { parseAddress, parseAddressSloppy } from '../values/address.ts'
import type { Log } from '../values/log.ts'

/** URLs of the API server, and of the proxy in front of it. */
export interface ApiServerUrls {
  readonly server: string
  readonly proxyUrl?: string | undefined
}

export interface ProtectedAddressesOptions {
  readonly guard: Pick<VirtualIpGuard, 'protect' | 'protectApiServer'>
  /** Rejects while the kubeconfig cannot be read. Absent: there is no API server. */
  readonly urls?: (() => Promise<ApiServerUrls>) | undefined
  readonly log: Pick<Log, 'warn'>
  /** Replaces getaddrinfo in tests. */
  readonly resolve?: (host: string) => Promise<readonly string[]>
  /** Replaces RESOLVER_FILES in tests. */
  readonly resolverFiles?: readonly string[]
}

/**
 * The programs behind a resolver on loopback write here which servers they ask: systemd-resolved,
 * NetworkManager with dnsmasq.
 */
const RESOLVER_FILES: readonly string[] = [
  '/etc/resolv.conf',
  '/run/systemd/resolve/resolv.conf',
  '/run/NetworkManager/no-stub-resolv.conf',
]
const PERIOD_MS = 60_000
/** The start waits no longer than this. */
const START_MS = 2000
/** Addresses of connections that are remembered, the last ones. */
const MAX_CONNECTIONS = 16
const PROXY = 'the proxy of the API server'

export class ProtectedAddresses {
  readonly #options: ProtectedAddressesOptions
  /** Addresses of the last connections to the API server, the oldest first, with their ports. */
  readonly #connected = new Map<string, number>()
  /** Names that have had an address. Those addresses stay while the name cannot be looked up. */
  readonly #found = new Set<string>()
  #followers = 0
  #timer: NodeJS.Timeout | undefined

  constructor(options: ProtectedAddressesOptions) {
    this.#options = options
  }

  /** Reads everything once. Resolves when that is done, or after two seconds. */
  async start(): Promise<void> {
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(() => {
      this.#options.log.warn('Addresses that externalIPs must not have are not known yet', {
        reason: `no answer within ${START_MS / 1000} s`,
      })
      late.resolve()
    }, START_MS)
    await Promise.race([this.#read(), late.promise])
    clearTimeout(timer)
  }

  /** Reads everything again each minute, until the returned function has been called. */
  follow(): () => void {
    let isFollowed = true
    this.#followers++
    if (this.#followers === 1) this.#wait()
    return () => {
      if (!isFollowed) return
      isFollowed = false
      if (--this.#followers === 0) clearTimeout(this.#timer)
    }
  }

  /** A connection to the API server, or to the proxy in front of it, has been made. */
  connected(written: string, port: number): void {
    const address = parseAddressSloppy(written)
    if (address === undefined || this.#connected.get(address) === port) return
    this.#connected.delete(address)
    this.#connected.set(address, port)
    const { guard } = this.#options
    guard.protectApiServer(`connection ${address}`, [address], port)
    const [oldest] = this.#connected.keys()
    if (this.#connected.size <= MAX_CONNECTIONS || oldest === undefined) return
    this.#connected.delete(oldest)
    guard.protectApiServer(`connection ${oldest}`, [], 0)
  }

  #wait(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      // The next minute begins when this read has ended: a file system or a resolver that hangs
      // keeps no more than one thread.
      void this.#read().then(() => {
        if (this.#followers > 0) this.#wait()
      })
    }, PERIOD_MS)
    this.#timer.unref()
  }

  async #read(): Promise<void> {
    await Promise.all([this.#readResolvers(), this.#readServers()])
  }

  async #readResolvers(): Promise<void> {
    const { guard, resolverFiles = RESOLVER_FILES } = this.#options
    const found = await Promise.all(resolverFiles.map(readNameservers))
    guard.protect('the resolvers of this node', Array.from(new Set(found.flat())))
  }

  async #readServers(): Promise<void> {
    const { urls, guard, log } = this.#options
    if (urls === undefined) return
    try {
      const { server, proxyUrl } = await urls()
      await this.#readServer('by its URL', server)
      if (proxyUrl === undefined) guard.protectApiServer(PROXY, [], 0)
      else await this.#readServer(PROXY, proxyUrl, PROXY)
    } catch (error) {
      log.warn('The address of the API server is unknown, so an externalIP may be equal to it', { error })
    }
  }

  async #readServer(source: string, url: string, what?: string): Promise<void> {
    const { guard, log, resolve = addressesOf } = this.#options
    const { hostname, protocol, port } = new URL(url)
    const host = hostname.replace(/^\[(.*)\]$/, '$1')
    const number = port === '' ? (protocol === 'http:' ? 80 : 443) : Number(port)
    const address = parseAddress(host)
    try {
      const found = address === undefined ? await resolve(host) : [address]
      guard.protectApiServer(source, found, number, what)
      this.#found.add(host)
    } catch (error) {
      if (!this.#found.has(host))
        log.warn('The address of the API server is unknown, so an externalIP may be equal to it', { host, error })
    }
  }
}

async function addressesOf(host: string): Promise<readonly string[]> {
  const found = await lookup(host, { all: true })
  return found.flatMap((one) => parseAddress(one.address) ?? [])
}
