/** Node ports at 127.0.0.1 and ::1 as lines: to which endpoints the relay sends, or why nobody listens. */
import { isLoopback, parseEndpoint } from '../../values/address.ts'
import { firstNames } from '../../values/lists.ts'
import { printable } from '../../values/quote.ts'
import type { RelayView } from '../../inspect/relay-view.ts'
import { labelled, type Paper } from '../paper.ts'
import type { ExplainedService, Explanation } from './explanation.ts'

const WHY: Readonly<Record<Exclude<RelayView['state'], 'open' | 'failing'>, string>> = {
  'no-endpoint': 'nobody listens, because no endpoint may get its connections (external traffic policy, readiness)',
  'no-address': 'nobody listens, because this node does not have the address',
  'left-out': 'nobody listens, because the daemon has as many of these sockets as it opens at most',
  waiting: 'the daemon is about to listen',
}
const LABEL = 'localhost'
const OFF = 'nobody relays node ports to 127.0.0.1 and ::1: kubeIPVS.localhostNodePorts is false'

export function relayLines(
  { relays }: Pick<ExplainedService, 'relays'>,
  { mode, target }: Pick<Explanation, 'mode' | 'target'>,
  paper: Paper,
): string[] {
  if (mode !== 'ipvs') return []
  if (relays === null) return isLoopback(addressOf(target)) ? labelled(LABEL, OFF, paper, 'yellow') : []
  return relays.flatMap((relay) => {
    const { text, isFine } = sentence(relay)
    return labelled(LABEL, `${relay.socket}: ${text}`, paper, isFine ? undefined : 'yellow')
  })
}

function sentence({ state, because, endpoints, omitted }: RelayView): {
  readonly text: string
  readonly isFine: boolean
} {
  if (state === 'failing') return { text: `nobody listens: ${printable(because)}`, isFine: false }
  if (state !== 'open') return { text: WHY[state], isFine: false }
  const shown = firstNames(endpoints.map(printable), endpoints.length, endpoints.length + omitted)
  return { text: `the daemon listens and relays to ${shown}`, isFine: true }
}

function addressOf(target: string): string {
  return parseEndpoint(target.replace(/\/[a-z]+$/i, '')).address
}
