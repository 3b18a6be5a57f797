/**
 * The kernel objects of a frontend as lines: what is as wanted in few words, everything else with
 * its effect and its commands.
 */
import { SERVICE_TABLES } from '../../modes/look/service-tables.ts'
import { printable } from '../../values/quote.ts'
import type { StyleFormat } from '../../start/style.ts'
import type { ExplainedObject, ExplainedRealServer, ObjectState } from './object-types.ts'
import { hanging, labelled, type Paper } from '../paper.ts'

const OF_KIND: ReadonlyMap<string, { readonly label: string; readonly where?: string }> = new Map(
  Object.values(SERVICE_TABLES).map((record) => [record.kind, record]),
)

const STATE: Readonly<Record<ObjectState, readonly [word: string, colour: StyleFormat | undefined]>> = {
  present: ['ok', 'green'],
  missing: ['missing', 'red'],
  differs: ['differs', 'red'],
  extra: ['extra', 'red'],
  unknown: ['', undefined],
}

/** Hairpin entries and chains of endpoints can be thousands. */
const MAX_SHOWN = 12
/** Commands of one object. */
const MAX_COMMANDS = 4

export function objectLines(objects: readonly ExplainedObject[], paper: Paper): string[] {
  const wrong = objects.filter(({ state }) => state === 'missing' || state === 'differs' || state === 'extra')
  const fine = objects.filter((object) => !wrong.includes(object))
  const lines: string[] = []
  for (const [kind, group] of Map.groupBy(fine, (object) => object.kind)) {
    for (const object of group.slice(0, MAX_SHOWN)) lines.push(...oneObject(object, paper))
    if (group.length > MAX_SHOWN)
      lines.push(
        ...labelled(OF_KIND.get(kind)?.label ?? kind, `and ${group.length - MAX_SHOWN} more like these`, paper),
      )
  }
  for (const object of wrong.slice(0, 2 * MAX_SHOWN)) lines.push(...oneObject(object, paper))
  if (wrong.length > 2 * MAX_SHOWN)
    lines.push(...labelled('', `and ${wrong.length - 2 * MAX_SHOWN} more that are not as wanted`, paper, 'red'))
  return lines
}

function oneObject(object: ExplainedObject, paper: Paper): string[] {
  const { kind, state, means, commands, virtualServer } = object
  const { style } = paper
  const [word, colour] = STATE[state]
  const isWrong = colour === 'red'
  const name = describe(object)
  const lines = labelled(
    OF_KIND.get(kind)?.label ?? kind,
    word === '' ? name : `${word}: ${name}`,
    paper,
    isWrong ? 'red' : undefined,
  )
  if (means !== '') lines.push(...hanging('      ', means, paper).map((line) => (isWrong ? style('red', line) : line)))
  // Commands are never broken, so that they can be copied.
  for (const command of commands.slice(0, MAX_COMMANDS))
    for (const line of command.split('\n')) lines.push(`      ${style('cyan', line)}`)
  if (commands.length > MAX_COMMANDS) lines.push(`      and ${commands.length - MAX_COMMANDS} more commands`)
  if (virtualServer !== undefined && state !== 'missing')
    for (const server of virtualServer.realServers.slice(0, 2 * MAX_SHOWN))
      lines.push(...realServerLines(server, paper))
  return lines
}

function describe({ kind, name, place, rules, virtualServer }: ExplainedObject): string {
  if (virtualServer !== undefined) return serverText(virtualServer)
  if (rules !== undefined) return `${name}, ${rules.length} rule${rules.length === 1 ? '' : 's'}`
  if (kind === 'rule') return `in ${place}: ${printable(name)}`
  const where = OF_KIND.get(kind)?.where
  return where === undefined ? name : `${name} ${where} ${place}`
}

function serverText(server: NonNullable<ExplainedObject['virtualServer']>): string {
  const { scheduler, flags, persistenceTimeoutSeconds, realServers, traffic } = server
  const words = [
    scheduler,
    ...flags.filter((flag) => flag !== 'persistent'),
    ...(persistenceTimeoutSeconds === 0 ? [] : [`persistent for ${persistenceTimeoutSeconds} s`]),
  ].join(', ')
  const count = `${realServers.length} real server${realServers.length === 1 ? '' : 's'}`
  const since =
    traffic === null
      ? ''
      : `, ${traffic.connections} connections, ${traffic.packetsIn} packets in, ${traffic.packetsOut} out`
  return `${printable(words)}, ${count}${since}`
}

function realServerLines(server: ExplainedRealServer, paper: Paper): string[] {
  const { key, weight, activeConnections: active, inactiveConnections: inactive, maxConnections, state } = server
  const { style } = paper
  const counts = active === null ? 'not in the kernel' : `${active} active, ${inactive ?? 0} inactive connections`
  const limit = maxConnections === 0 ? '' : `, at most ${maxConnections} connections`
  const note =
    state === 'present' || state === 'unknown'
      ? ''
      : state === 'draining'
        ? ', draining: it gets no new connections'
        : state === 'suspect'
          ? ', it does not answer (kube-ipvs.io/outlier-detection): it gets no new connections until it does'
          : `, ${state}`
  const colour = state === 'draining' || state === 'suspect' ? 'yellow' : note === '' ? undefined : 'red'
  return hanging('      ', `${key} weight ${weight}, ${counts}${limit}${note}`, paper).map((line) =>
    colour === undefined ? line : style(colour, line),
  )
}
