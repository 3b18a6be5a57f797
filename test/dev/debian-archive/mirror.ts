/**
 * A mirror of Debian on loopback for tests: the archive beside this file, honest or not. `new` has
 * Go 1.99 and `old` has Go 1.19; which of them answers as which release is up to the test.
 */
import { readFileSync } from 'node:fs'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { findProgram } from '../../../dev/packages.mjs'

const hasApt =
  findProgram('apt-get') !== undefined && /^ID="?debian"?$/m.test(readFileSync('/etc/os-release', { encoding: 'utf8' }))

/** Options of a suite that asks a mirror. */
export const needsDebian = { skip: hasApt ? false : "needs Debian's apt" }

/**
 * How a mirror answers for packages: `changed` alters a byte, `truncated` ends the connection in
 * the middle, `lost` does not have them.
 */
export type Fault = 'changed' | 'truncated' | 'lost'

export interface MirrorOptions {
  /** By the name of a release, what answers for it; the mirror has no others. */
  readonly releases?: Readonly<Record<string, 'new' | 'old'>>
  readonly packages?: Fault
  /** The status that every request gets, or silence. */
  readonly everything?: number | 'silence'
}

export class Mirror {
  /** The paths that were asked for. */
  readonly asked: string[] = []
  readonly #options: MirrorOptions
  readonly #server: Server

  constructor(options: MirrorOptions) {
    this.#options = options
    this.#server = createServer(({ url = '' }, response) => {
      this.asked.push(url)
      this.#answer(decodeURIComponent(url), response)
    })
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    return this
  }

  /** For openDebianRelease. */
  get options() {
    const { port } = this.#server.address() as AddressInfo // it listens on TCP
    return {
      mirrors: [`http://127.0.0.1:${port}/debian`],
      keyring: join(import.meta.dirname, 'key.asc'),
      timeoutSeconds: 1,
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #answer(path: string, response: ServerResponse): void {
    const { everything, packages, releases = {} } = this.#options
    if (everything === 'silence') return
    const content = everything === undefined ? contentOf(path, releases) : undefined
    const isPackage = path.includes('/pool/')
    if (content === undefined || (isPackage && packages === 'lost')) {
      response.writeHead(everything ?? 404).end()
      return
    }
    if (isPackage && packages === 'changed') content[content.length - 1] = (content.at(-1) ?? 0) ^ 255
    response.writeHead(200, { 'content-length': content.length })
    if (!isPackage || packages !== 'truncated') return void response.end(content)
    response.write(content.subarray(0, content.length / 2), () => response.destroy())
  }
}

function contentOf(path: string, releases: Readonly<Record<string, string>>): Buffer | undefined {
  const [, release = '', file = ''] = /^\/debian\/dists\/([^/]+)\/(?:.*\/)?(InRelease|Packages)$/.exec(path) ?? []
  const [, name = ''] = /^\/debian\/pool\/([^/]+)$/.exec(path) ?? []
  const folder = releases[release]
  if (folder === undefined && name === '') return undefined
  try {
    return readFileSync(join(import.meta.dirname, folder === undefined ? join('pool', name) : join(folder, file)))
  } catch {
    return undefined
  }
}
