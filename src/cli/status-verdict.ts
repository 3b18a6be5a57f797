/**
 * The answer of `kube-ipvs status` to the question whether this node is fine. A wrong object of a
 * tenant is a note and no reason against the node, unless the kernel lacks something because of it.
 */
import { firstNames } from '../values/lists.ts'
import { nodeReasons } from '../inspect/node-reasons.ts'
import type { DaemonView } from '../inspect/view.ts'
import { printable, quote } from '../values/quote.ts'
import type { Status, Verdict } from './node-status.ts'
import { count } from './status-words.ts'

/** Things that a reason names one by one. */
const NAMED = 3

/** What is wrong with this node as far as the kernel, its processes and, where it answers, the daemon show it. */
export function verdictOf(status: Omit<Status, 'verdict'>): Verdict {
  const { daemon, daemonUnknown } = status
  const reasons = [...kernelReasons(status), ...(daemon === null ? [] : daemonReasons(daemon, status))]
  if (daemon !== null) return { fine: reasons.length === 0, reasons, notes: notesOf(daemon, status) }
  const code = daemonUnknown?.unknown
  // Somebody listens, and does not answer.
  if (daemonUnknown !== null && (code === 'no-answer' || code === 'starting')) reasons.unshift(daemonUnknown.reason)
  else if (!status.proxy.answers && status.processes.length === 0 && (code === 'no-daemon' || code === 'off'))
    reasons.unshift('no proxy answers: what the kernel has is served, but no change arrives')
  if (reasons.length > 0) return { fine: false, reasons, notes: [] }
  const why = daemonUnknown === null ? 'the daemon was not asked' : daemonUnknown.reason
  return { fine: null, reasons: [`${why}, so health, problems and what is missing are unknown`], notes: [] }
}

function kernelReasons({
  processes,
  iptables,
  device,
  mode,
  ipvs,
  localRoutes,
  daemon,
  fallback,
}: Omit<Status, 'verdict'>): string[] {
  const reasons: string[] = []
  if (daemon === null && fallback !== null) reasons.push(`ipvs mode is not possible: ${fallback.message}`)
  const proxies = processes.filter(isSurelyProxy)
  if (proxies.length > 1)
    reasons.push(`${proxies.length} proxies run and undo what the others write: ${processNames(proxies)}`)
  if (iptables.other !== null)
    reasons.push(`${iptables.other.chains} chains of a proxy are in iptables-${iptables.other.backEnd} too`)
  if (mode === 'ipvs' && device === null && localRoutes.length === 0 && (ipvs?.virtualServers.length ?? 0) > 0)
    reasons.push('kube-ipvs0 does not exist, so no virtual IP is reachable')
  return reasons
}

function daemonReasons(daemon: DaemonView, { rows }: Pick<Status, 'rows'>): string[] {
  const reasons = nodeReasons(daemon)
  const problems = reasons.filter(({ kind }) => kind === 'problem')
  return [
    ...[...reasons.filter(({ kind }) => kind !== 'problem'), ...problems.slice(0, NAMED)].map(({ text }) => text),
    ...(problems.length > NAMED ? [`${problems.length - NAMED} more problems of the node (--problems)`] : []),
    ...(rows === null || rows.missing === 0
      ? []
      : [`the kernel lacks ${count(rows.missing, 'object')}${namedRows(rows, 'missing')}`]),
    ...(rows === null || rows.differs === 0
      ? []
      : [`the kernel has ${count(rows.differs, 'object')} otherwise than wanted${namedRows(rows, 'differs')}`]),
  ]
}

/** Other programs may have their proxy switched off: doctor reads their switches. */
const isSurelyProxy = ({ name }: Status['processes'][number]): boolean => name === 'kube-ipvs' || name === 'kube-proxy'

const processNames = (processes: Status['processes']): string =>
  firstNames(
    processes.map(({ pid, name }) => `${quote(name)} (pid ${pid})`),
    NAMED,
  )

/** `: a, b and 2 more`; '' where the two looks of a status named different rows. */
function namedRows(rows: NonNullable<Status['rows']>, state: 'missing' | 'differs' | 'extra'): string {
  const wrong = rows.wrong.filter((row) => row.state === state).slice(0, NAMED)
  if (wrong.length === 0) return ''
  const names = wrong.map(({ table, key }) => `${printable(key)} (${printable(table)})`)
  return `: ${firstNames(names, names.length, rows[state])}`
}

function notesOf(
  daemon: DaemonView,
  { rows, natChains, processes }: Pick<Status, 'rows' | 'natChains' | 'processes'>,
): string[] {
  const { counts, problems } = daemon
  const settings = problems.filter(({ about }) => about === 'setting').length
  const ofObjects = counts.problems - problems.filter(({ about }) => about !== 'object').length
  const others = processes.filter((one) => !isSurelyProxy(one))
  return [
    ...(others.length === 0
      ? []
      : [
          `a proxy may run inside ${processNames(others)} ("kube-ipvs doctor" says whether it is known to be switched off)`,
        ]),
    ...(settings === 0 ? [] : [`${count(settings, 'setting')} of the kernel could not be written (--problems)`]),
    ...(ofObjects <= 0 ? [] : [`${count(ofObjects, 'problem')} with objects (--problems)`]),
    ...(counts.conflicts === 0 ? [] : [`${count(counts.conflicts, 'claim')} lost to another Service (--problems)`]),
    ...(rows === null || rows.extra === 0
      ? []
      : [`nothing wants ${count(rows.extra, 'object')} in the kernel${namedRows(rows, 'extra')}`]),
    ...translatingNotes(daemon, natChains),
    ...(counts.draining === 0 ? [] : [`${count(counts.draining, 'real server')} draining (--draining)`]),
  ]
}

/** Only in ipvs mode is every virtual IP an address of the node, which rules of hostPorts look for. */
function translatingNotes({ mode, firewall }: DaemonView, chains: Status['natChains']): string[] {
  if (mode !== 'ipvs') return []
  const name = firewall?.name === 'nftables' ? 'nftables' : 'iptables'
  const own = chains.filter(({ takesFrom }) => takesFrom.includes(name))
  if (own.length === 0) return []
  const names = own.slice(0, NAMED).map(({ chain }) => quote(chain))
  const what = own.length === 1 ? 'the chain' : 'the chains'
  return [
    `${what} ${firstNames(names, names.length, own.length)} of nf_tables may take packets to Services ("kube-ipvs doctor" says how)`,
  ]
}
