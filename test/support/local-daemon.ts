/** What a daemon tells about itself, without a daemon: the real answers about made-up parts, at a real Unix socket. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defaultConfiguration } from './configuration.ts'
import type { Inspected } from '../../src/daemon/daemon-view.ts'
import { answerLocally } from '../../src/daemon/local-answers.ts'
import { LocalSocket } from '../../src/daemon/local-socket.ts'
import type { CurrentDrain } from '../../src/ipvs/drains.ts'
import type { CurrentOutlier } from '../../src/ipvs/outlier-states.ts'
import { HttpListener } from '../../src/serve/http-listener.ts'
import type { Responder } from '../../src/serve/http-answer.ts'
import { ProblemLog } from '../../src/serve/problem-log.ts'
import type { NodeContext } from '../../src/service/node-context.ts'
import type { ObjectChange } from '../../src/service/objects.ts'
import { DesiredFrontends } from '../../src/sync/desired-frontends.ts'
import { Budget } from '../../src/values/budget.ts'
import { silentLog } from '../../src/values/log.ts'
import { recordingLog } from './recording-log.ts'

export const NODE: NodeContext = {
  nodeName: 'node0',
  zone: 'zone-a',
  nodeIps: { IPv4: '10.0.2.15' },
  localAddresses: new Set(['10.0.2.15']),
  nodePortAddresses: { IPv4: ['10.0.2.15'], IPv6: [] },
}

/** A healthy proxy in ipvs mode with these objects, drains and tables; `more` replaces parts of it. */
export function inspectedOf(
  changes: readonly ObjectChange[],
  more: Partial<Inspected> = {},
  drains: readonly CurrentDrain[] = [],
  tables: Inspected['mode']['sources']['tables'] = [],
  outliers: readonly CurrentOutlier[] = [],
): Inspected {
  const desired = new DesiredFrontends(NODE, { maxCost: () => 300_000 }, new Budget())
  const problems = new ProblemLog(silentLog)
  for (const change of changes) desired.apply(change)
  desired.flushAll({ frontend: () => undefined, problems: (owner, found) => problems.report('service', owner, found) })
  return {
    inForce: { configuration: defaultConfiguration('ipvs') },
    mode: {
      name: 'ipvs',
      families: ['IPv4'],
      drains: () => drains,
      outliers: () => outliers,
      dataplane: { wanted: () => [] },
      sources: { tables },
    },
    fallback: undefined,
    node: { view: { context: NODE, problems: [], addresses: [], podCidrs: ['10.244.0.0/24'] } },
    desired,
    readiness: { awaited: new Set() },
    health: { state: { nodeEligible: true, families: new Map() }, troubles: [], isHealthy: true },
    problems,
    passLog: {
      last: new Map([['tables', { endedMs: 1000, durationMs: 2.4, applied: 3, failed: 0, unreadable: 0 }]]),
    },
    localhostNodePorts: { states: () => undefined },
    ...more,
  }
}

/** A folder for sockets, and what listens in it; `close` ends and removes everything. */
export class SocketFolder {
  readonly folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-socket-'))
  readonly path = join(this.folder, 'run', 'kube-ipvs.sock')
  readonly log = recordingLog()
  readonly #closers: (() => void)[] = []

  /**
   * Serves what the daemon of these parts would tell; resolves when the socket is open, or the
   * first attempt has failed.
   */
  async serve(inspected: () => Inspected | undefined, more: { readonly path?: string } = {}): Promise<LocalSocket> {
    return this.listen(
      (request) =>
        answerLocally(
          { inspected, listPod: async () => ({ addresses: ['10.244.0.9'], endpoints: [] }), now: () => 3500 },
          request,
        ),
      more,
    )
  }

  /** The same with any answers. */
  async listen(answer: Responder, more: { readonly path?: string } = {}): Promise<LocalSocket> {
    const socket = new LocalSocket({ path: this.path, answer, log: this.log, retryMs: 20, ...more })
    this.#closers.push(() => socket.close())
    await socket.open()
    return socket
  }

  /** Listens without anything of the daemon's around it. */
  async listenPlainly(answer: Responder, path: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const listener = new HttpListener({ path, answer, onOpen: resolve, onFailure: reject, retryMs: () => 60_000 })
      this.#closers.push(() => listener.close())
      listener.open()
    })
  }

  close(): void {
    for (const close of this.#closers) close()
    rmSync(this.folder, { recursive: true, force: true })
  }
}
