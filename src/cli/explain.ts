/**
 * `kube-ipvs explain`: why traffic of a Service goes where it goes. It joins what the daemon knows
 * of the Service with what the kernel has, and changes nothing. Exit code 2: the target is no
 * frontend of a Service.
 */
import { deadlineSignal } from '../node/deadline.ts'
import { CodedError } from '../values/errors.ts'
import { explainKernel, explainService, type Explanation, fromKernel, rulesUnread } from './explain/explanation.ts'
import { addressOfPod, findServices, type Knowledge, nearestTo, openKnowledge } from './knowledge.ts'
import { pathKeys, predictPaths } from './explain/paths.ts'
import { asNodePort, isAtLoopback, type PacketSource, parseSource, parseTarget, type Target } from './explain/target.ts'
import { explanationText } from './explain/text.ts'
import { keysAt } from '../inspect/questions.ts'
import { readLive } from '../modes/look/live-tables.ts'
import { type Look, openLook } from '../modes/look/look.ts'
import type { FlagValues } from '../start/flags.ts'
import { page, printJson, printLines, stderrLog } from '../start/output.ts'
import { loadSettings } from '../start/settings.ts'

const DEADLINE_MS = 60_000
/** The target is unknown. */
const UNKNOWN = 2

/** @param words the target, which is one word */
export async function explain(flags: FlagValues, [text = '']: readonly string[]): Promise<number> {
  const target = parseTarget(text)
  if ('wrong' in target) throw new CodedError('usage', target.wrong)
  const from = flags.from === undefined ? undefined : parseSource(flags.from)
  if (from !== undefined && 'wrong' in from) throw new CodedError('usage', `--from: ${from.wrong}`)
  const settings = await loadSettings(flags)
  const signal = deadlineSignal(DEADLINE_MS, 'reading the node')
  const knowledge = await openKnowledge(flags, settings, signal)
  const look = openLook()
  try {
    for (const reason of knowledge.reasons) stderrLog.warn(`kube-ipvs explain: ${reason}`)
    const question = { target: target.value, knowledge, look, signal }
    const found = await explanationOf(text, question)
    const explanation = from === undefined ? found : await withPaths(found, from.value, question)
    if (flags.output === 'json') printJson(explanation)
    else printLines(explanationText(explanation, page()))
    return explanation.isFound ? 0 : UNKNOWN
  } finally {
    look.close()
    await knowledge.close()
  }
}

interface Question {
  readonly target: Target
  readonly knowledge: Knowledge
  readonly look: Look
  readonly signal: AbortSignal
}

async function explanationOf(text: string, { target, knowledge, look, signal }: Question): Promise<Explanation> {
  const { client, daemon, knownFrom, source } = knowledge
  const base = { target: text, from: null, knownFrom, source, paths: [] } as const
  if (client === undefined || daemon === undefined) return { ...base, ...(await fromKernel(look, target, signal)) }
  const known = await findServices(client, target)
  const omitted = known.reduce((sum, { omittedRows }) => sum + omittedRows, 0)
  const keys = new Set([
    ...(target.kind === 'service' ? [] : keysAt(asNodePort(target), daemon.node.nodePortAddresses)),
    ...known.flatMap(({ ports }) => ports.flatMap(({ frontends }) => frontends.map(({ key }) => key))),
  ])
  const live = await readLive(look, {
    isWanted: (key) => keys.has(key),
    readsRules: daemon.mode === 'iptables',
    signal,
  })
  const services = known.flatMap((one) => {
    const shown = explainService(one, asNodePort(target), daemon, live)
    if (shown !== undefined || !isAtLoopback(target)) return shown ?? []
    // The relay needs no virtual server of the node port.
    return (
      explainService(
        one,
        { kind: 'service', service: `${one.namespace}/${one.name}`, port: undefined },
        daemon,
        live,
      ) ?? []
    )
  })
  const isFound = services.length > 0
  const kernel = isFound ? [] : explainKernel(target, live)
  return {
    ...base,
    mode: daemon.mode,
    node: daemon.node,
    unknown: [
      ...rulesUnread(live),
      ...(omitted === 0 ? [] : [`${omitted} objects in the kernel were not compared, because there are too many.`]),
      ...(kernel.length === 0
        ? []
        : ['No Service wants what the kernel has there: another program may have added it.']),
    ],
    isFound,
    nearest: isFound ? [] : await nearestTo(client, target),
    services,
    kernel,
  }
}

/** Adds the paths of packets from there to everything that was found. */
async function withPaths(
  explanation: Explanation,
  from: PacketSource,
  { target, knowledge: { client, daemon }, look, signal }: Question,
): Promise<Explanation> {
  const questions = {
    sources: await addressesOf(from, client),
    frontends: pathKeys(target, explanation),
    nodeIps: daemon?.node.ips ?? {},
  }
  const { paths, leftOut } = await predictPaths(look, questions, signal)
  return {
    ...explanation,
    from: from.kind === 'node' ? 'node' : from.kind === 'pod' ? from.pod : from.address,
    paths,
    unknown: [
      ...explanation.unknown,
      ...(leftOut === 0 ? [] : [`${leftOut} more paths were left out: name one port or address.`]),
    ],
  }
}

/** undefined: those of this node. */
async function addressesOf(from: PacketSource, client: Knowledge['client']): Promise<readonly string[] | undefined> {
  switch (from.kind) {
    case 'node':
      return undefined
    case 'address':
      return [from.address]
    case 'pod':
      return addressOfPod(client, from.pod)
  }
}
