/**
 * The kernel's table as the demo shows it: virtual servers, real servers, and how often each
 * answered. It is read from the kernel, not from the daemon.
 */
import type { Style } from '../../src/start/style.ts'
import { type Column, formatColumns } from '../../src/cli/terminal.ts'
import { type VirtualServerState, virtualServerState } from '../../src/modes/look/kernel-state.ts'
import type { IpvsConnection } from '../../src/ipvs/connection.ts'
import type { Expected } from './expected.ts'

export type Table = readonly VirtualServerState[]

export async function readTable(ipvs: IpvsConnection, signal: AbortSignal): Promise<Table> {
  const table: VirtualServerState[] = []
  for (const service of await ipvs.listServices({ signal }))
    if (service.kind === 'address')
      table.push(virtualServerState(service.fields, await ipvs.listDestinations(service.fields, { signal })))
  return table.sort((a, b) => (a.key < b.key ? -1 : 1))
}

/** Whether every expected virtual server exists with exactly its ready endpoints at a weight above 0. */
export function isComplete(table: Table, expected: readonly Expected[]): boolean {
  const byKey = new Map(table.map((virtual) => [virtual.key, virtual]))
  return expected.every(({ key, realServers }) => {
    const active = (byKey.get(key)?.realServers ?? []).filter(({ weight }) => weight > 0)
    return (
      byKey.has(key) &&
      active
        .map((server) => server.key)
        .sort()
        .join() === realServers.join()
    )
  })
}

/** One line for each difference: `+ 10.96.0.10:80/tcp -> 10.244.0.13:8080 weight 1`. */
export function changes(before: Table, after: Table): string[] {
  const [old, fresh] = [lines(before), lines(after)]
  return [
    ...[...old].flatMap(([key, text]) => (fresh.has(key) ? [] : [`- ${key} ${text}`])),
    ...[...fresh].flatMap(([key, text]) => {
      const was = old.get(key)
      if (was === undefined) return [`+ ${key} ${text}`]
      return was === text ? [] : [`~ ${key} ${text} (was ${was})`]
    }),
  ]
}

function lines(table: Table): Map<string, string> {
  return new Map(
    table.flatMap((virtual): [string, string][] => [
      [virtual.key, schedulerText(virtual)],
      ...virtual.realServers.map((server): [string, string] => [
        `${virtual.key} -> ${server.key}`,
        `weight ${server.weight}`,
      ]),
    ]),
  )
}

const schedulerText = ({ scheduler, flags, persistenceTimeoutSeconds }: VirtualServerState): string =>
  [scheduler, ...flags, ...(persistenceTimeoutSeconds > 0 ? [`${persistenceTimeoutSeconds}s`] : [])].join(' ')

/** Answers by virtual server key, then pod name. */
export type Answers = ReadonlyMap<string, ReadonlyMap<string, number>>

const columns: readonly Column[] = [
  { title: 'SERVICE' },
  { title: 'ADDRESS' },
  { title: 'VIRTUAL SERVER' },
  { title: 'SCHEDULER' },
  { title: 'REAL SERVER' },
  { title: 'WEIGHT', align: 'right' },
  { title: 'POD' },
  { title: 'ANSWERED', align: 'right' },
]

export function tableText(
  table: Table,
  expected: readonly Expected[],
  answers: Answers,
  podOf: (realServer: string) => string,
  style: Style,
): string[] {
  const order = new Map(expected.map(({ key }, index) => [key, index]))
  const position = (key: string): number => order.get(key) ?? expected.length
  const rows = [...table]
    .sort((a, b) => position(a.key) - position(b.key))
    .flatMap((virtual) => {
      const known = expected.find(({ key }) => key === virtual.key)
      const bold = { text: virtual.key, paint: (text: string) => style('bold', text) }
      const head = [known?.service ?? '', known?.kind ?? '', bold, schedulerText(virtual)]
      if (virtual.realServers.length === 0) return [[...head, 'none']]
      return virtual.realServers.map((server, index) => {
        const pod = podOf(server.key)
        const answered = String(answers.get(virtual.key)?.get(pod) ?? 0)
        const paint = (text: string): string => style(server.draining ? 'yellow' : 'green', text)
        return [
          ...(index === 0 ? head : ['', '', '', '']),
          { text: server.key, paint },
          server.draining ? '0 draining' : String(server.weight),
          pod,
          answered,
        ]
      })
    })
  return formatColumns(columns, rows, { paintTitle: (text) => style('dim', text) })
}
