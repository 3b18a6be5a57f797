/**
 * The node of the soak, in the guest: the API server, the daemon that watches it, and what a change
 * of the soak does to them and to the network.
 */
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { ApiServer } from '../../api-server/server.ts'
import { addNodeAddress, type ConfigurationPaths, NODE_NAME, writeConfiguration } from '../../bench/guest-node.ts'
import { MeasuredProgram } from '../../bench/measured-program.ts'
import { NODE_FLAGS } from '../../node-flags.ts'
import { type Change, type Settings, START_SETTINGS } from './changes.ts'
import { nodeObject, writeService, writeStart } from './cluster.ts'

/** Events that a watch can resume from: a minute of changes. The default would take the guest's memory. */
const HISTORY = 6_000
const INSIDE = join(import.meta.dirname, 'inside.cjs')
const ANSWER_MS = 120_000
const run = promisify(execFile)

/** What inside.cjs writes. */
export interface Inside {
  readonly heapBytes: number
  readonly externalBytes: number
  /** What keeps the program's event loop running. */
  readonly handles: number
  /** All timers, also those that keep nothing running. */
  readonly timers: number
  readonly promises: number
}

export class SoakNode {
  readonly program: MeasuredProgram
  readonly #entry: string
  readonly #server: ApiServer
  readonly #folder: string
  #paths: ConfigurationPaths

  static async start(entry: string): Promise<SoakNode> {
    await run('ip', ['link', 'set', 'lo', 'up'])
    addNodeAddress()
    const server = new ApiServer()
    server.store.historyLimit = HISTORY
    server.store.put('nodes', nodeObject(NODE_NAME, 0))
    writeStart(server.store)
    await server.listen()
    return new SoakNode(entry, server)
  }

  private constructor(entry: string, server: ApiServer) {
    this.#entry = entry
    this.#server = server
    this.#folder = mkdtempSync('/run/kube-ipvs-soak-')
    this.#paths = this.#configure(START_SETTINGS)
    process.env['KUBE_IPVS_SOAK_FILE'] = this.#insideFile
    this.program = new MeasuredProgram({
      command: [process.execPath, ...NODE_FLAGS, '--require', INSIDE, entry, '--config', this.#paths.config],
      logFile: this.#logFile,
    })
  }

  get #logFile(): string {
    return join(this.#folder, 'program.log')
  }

  get #insideFile(): string {
    return join(this.#folder, 'inside')
  }

  async stop(): Promise<void> {
    await this.program.stop()
    await this.#server.close()
    rmSync(this.#folder, { recursive: true })
  }

  async apply(change: Change): Promise<void> {
    switch (change.kind) {
      case 'service':
        writeService(this.#server.store, change.service, change.from, change.to)
        return
      case 'zone':
        this.#server.store.put('nodes', nodeObject(NODE_NAME, change.zone))
        return
      case 'address': {
        const address = `172.18.1.${1 + (change.address % 250)}/32`
        await run('ip', ['address', change.isThere ? 'add' : 'delete', address, 'dev', 'eth0'])
        return
      }
      case 'settings':
        this.#paths = this.#configure(change.settings)
        return
      case 'interruption':
        if (change.how === 'end') this.#server.endWatches()
        else this.#server.resetConnections()
    }
  }

  #configure({ mode, firewall, virtualAddresses, reload }: Settings): ConfigurationPaths {
    return writeConfiguration(this.#folder, mode, this.#server.url, {
      kubeIPVS: {
        firewall,
        virtualAddresses,
        switchBack: reload > 0,
        ...(reload === 2 ? { maxRealServers: 200_000 } : {}),
      },
      ipvs: { syncPeriod: reload > 0 ? '20s' : '30s' },
      logging: { verbosity: 0 },
      ...(reload === 2 ? { nodePortAddresses: ['172.18.0.0/24'] } : {}),
    })
  }

  /** All garbage is collected before. */
  async inside(): Promise<Inside> {
    rmSync(this.#insideFile, { force: true })
    process.kill(this.program.pid, 'SIGUSR2')
    for (const endMs = performance.now() + ANSWER_MS; performance.now() < endMs && this.program.isAlive; ) {
      try {
        return JSON.parse(readFileSync(this.#insideFile, 'utf8')) as Inside // written by inside.cjs
      } catch {
        await sleep(50)
      }
    }
    throw new Error(`the program does not answer:\n${this.program.logTail}`)
  }

  get descriptors(): number {
    return readdirSync(`/proc/${this.program.pid}/fd`).length
  }

  /** What `kube-ipvs diff` prints; '' where it finds nothing. */
  async diff(): Promise<string> {
    const args = [this.#entry, 'diff', '--config', this.#paths.config]
    return run(process.execPath, args, { timeout: ANSWER_MS, maxBuffer: 64 << 20 }).then(
      () => '',
      (error: Error & { stdout?: string; stderr?: string }) => `${error.stdout}${error.stderr}`.slice(0, 2_000),
    )
  }

  /** Warnings and errors of the log, by their texts without values, with how often each came. */
  complaints(): Readonly<Record<string, number>> {
    const counts: Record<string, number> = {}
    for (const [, text = ''] of readFileSync(this.#logFile, 'utf8').matchAll(/^[WE]\d{4} \S+ +\d+ (\S+\] "[^"]*")/gm)) {
      const name = text.replace(/:\d+\]/, '')
      counts[name] = (counts[name] ?? 0) + 1
    }
    return counts
  }
}
