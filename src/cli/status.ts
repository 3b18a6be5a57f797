/** `kube-ipvs status`: prints what is known of this node, once or again and again. */
import { setTimeout as sleep } from 'node:timers/promises'
import { askDaemon, type DaemonClient, isUnknown } from '../inspect/daemon-client.ts'
import { deadlineSignal } from '../node/deadline.ts'
import { breakText } from './fitted-table.ts'
import type { FlagValues } from '../start/flags.ts'
import { canDraw } from './key-screen.ts'
import { runLive, type ScrolledText, scrolledText } from './live-screen.ts'
import { onOutputGone, page, printJson, printLines, screenOfProcess, stderrLog } from '../start/output.ts'
import { readStatus } from './read-status.ts'
import { loadSettings } from '../start/settings.ts'
import type { Status } from './node-status.ts'
import { filterStatus, isPartial, type StatusFilter, statusFilter } from './status-filter.ts'
import { statusText } from './status-text.ts'

const DEADLINE_MS = 60_000
const WATCH_MS = 2000
/** The daemon answers within milliseconds, or it hangs. */
const ANSWER_MS = 5000

/** @param words the Services to show; empty: everything */
export async function status(flags: FlagValues, words: readonly string[]): Promise<number> {
  const filter = statusFilter(words, flags)
  const settings = await loadSettings(flags)
  const client = askDaemon(settings.configuration.kubeIPVS.socket, { deadlineMs: ANSWER_MS })
  const read: ReadPart = async (signal, warn) => {
    const limited = AbortSignal.any([signal, deadlineSignal(DEADLINE_MS, 'reading the node')])
    const all = await readStatus(flags, settings, client, limited, warn)
    warnOfFilter(all, filter, warn)
    return filterStatus(all, filter, filter.pod === undefined ? [] : await endpointsOf(filter.pod, client, warn))
  }
  if (flags.watch === true) return watch(read, flags, filter)
  print(await read(new AbortController().signal, warnOnce()), flags, filter)
  return 0
}

/** Reads the part of the status that was asked for. @param warn gets what cannot be known, at each reading */
type ReadPart = (signal: AbortSignal, warn: (text: string) => void) => Promise<Status>

/** The endpoints of a pod; none, and a warning, where they are unknown or there are none. */
async function endpointsOf(
  pod: string,
  client: DaemonClient,
  warn: (text: string) => void,
): Promise<readonly string[]> {
  const answer = await client.pod(pod)
  if (isUnknown(answer)) warn(`the endpoints of the pod ${pod} are unknown: ${answer.reason}`)
  else if (answer.endpoints.length === 0) warn(`no EndpointSlice names the pod ${pod}`)
  return isUnknown(answer) ? [] : answer.endpoints
}

/** Writes warnings to standard error. A status that is shown again and again says once what it cannot know. */
function warnOnce(): (text: string) => void {
  const warned = new Set<string>()
  return (text) => {
    if (!warned.has(text)) stderrLog.warn(`kube-ipvs status: ${text}`)
    warned.add(text)
  }
}

function print(status: Status, flags: FlagValues, filter: StatusFilter): void {
  if (flags.output === 'json') return printJson(status)
  const { style, columns: width } = page()
  printLines(statusText(status, { style, width, isPartial: isPartial(filter) }))
}

/** Until q or a signal; resolves to the exit code. Where no screen can be drawn, a block is printed each time. */
async function watch(read: ReadPart, flags: FlagValues, filter: StatusFilter): Promise<number> {
  const { input, output, environment } = screenOfProcess()
  return flags.output !== 'json' && input.isTTY && canDraw(output, environment)
    ? watchOnScreen(read, filter)
    : watchInBlocks(read, flags, filter)
}

async function watchOnScreen(read: ReadPart, filter: StatusFilter): Promise<number> {
  const { environment: _, ...terminal } = screenOfProcess()
  const { style } = page()
  let known: Status | undefined
  let warnings: readonly string[] = []
  const text: ScrolledText = {
    refresh: async (signal) => {
      // Standard error is most likely the same terminal, so warnings are part of the screen.
      const found = new Set<string>()
      known = await read(signal, (warning) => found.add(warning))
      warnings = [...found]
    },
    lines: (width) =>
      known === undefined
        ? []
        : [
            ...statusText(known, { style, width, isPartial: isPartial(filter) }),
            ...warnings.flatMap((warning) => ['', ...breakText(warning, width)]),
          ],
  }
  return runLive(scrolledText(text, WATCH_MS), terminal)
}

async function watchInBlocks(read: ReadPart, flags: FlagValues, filter: StatusFilter): Promise<number> {
  const stop = new AbortController()
  const end = (): void => stop.abort()
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  for (const signal of signals) process.once(signal, end)
  // Who reads the output may stop before we do.
  onOutputGone(end)
  try {
    const warn = warnOnce()
    for (let isFirst = true; !stop.signal.aborted; isFirst = false) {
      const known = await read(stop.signal, warn)
      if (!isFirst && flags.output !== 'json') printLines([''])
      print(known, flags, filter)
      await sleep(WATCH_MS, undefined, { signal: stop.signal })
    }
    return 0
  } catch (error) {
    if (stop.signal.aborted) return 0
    throw error
  } finally {
    for (const signal of signals) process.off(signal, end)
  }
}

/** Says what a filter cannot find without a daemon. */
function warnOfFilter(
  { ipvs, daemon, daemonUnknown }: Status,
  filter: StatusFilter,
  warn: (text: string) => void,
): void {
  const reason = daemonUnknown?.reason ?? ''
  if (filter.problems && daemon === null) warn(`problems and conflicts are unknown: ${reason}`)
  else if (filter.services.length > 0 && (ipvs?.virtualServers.length ?? 0) > 0 && ipvs?.namesFrom === undefined)
    warn(`virtual servers have no names in the kernel, so those of a Service cannot be found: ${reason}`)
}
