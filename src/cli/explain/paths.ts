/** The packets of `--from`: one to each frontend of a target, with the path that the kernel of this node gives it. */
import type { DaemonView } from '../../inspect/view.ts'
import type { Look } from '../../modes/look/look.ts'
import { PacketReader } from '../../modes/look/packet-reader.ts'
import {
  type FrontendKey,
  familyOfKey,
  frontendKey,
  parseFrontendKey,
  parseNodePortKey,
} from '../../service/frontends.ts'
import { familyOf } from '../../values/address.ts'
import { CodedError } from '../../values/errors.ts'
import type { ExplainedPath, Explanation } from './explanation.ts'
import type { Target } from './target.ts'

/** A Service may have thousands of frontends. */
const MAX_PATHS = 16

export interface PathQuestions {
  /** Addresses of the source; undefined: a process of this node. */
  readonly sources: readonly string[] | undefined
  readonly frontends: readonly FrontendKey[]
  /** Of this node; empty when they are not known. */
  readonly nodeIps: DaemonView['node']['ips']
}

/** The keys to which packets are sent: the frontends that were found, else what the target says itself. */
export function pathKeys(
  target: Target,
  { services, kernel }: Pick<Explanation, 'services' | 'kernel'>,
): readonly FrontendKey[] {
  const found = [
    ...services.flatMap(({ ports }) => ports.flatMap(({ frontends }) => frontends.map(({ key }) => key))),
    ...kernel.map(({ key }) => key),
  ]
  if (found.length > 0 || target.kind !== 'address') return [...new Set(found)]
  return [frontendKey(target.address, target.port, target.protocol ?? 'tcp')]
}

/** Rejects when the kernel cannot be read. */
export async function predictPaths(
  look: Look,
  questions: PathQuestions,
  signal: AbortSignal,
): Promise<{ readonly paths: readonly ExplainedPath[]; readonly leftOut: number }> {
  const packets = questions.frontends.flatMap((key) => packetsTo(key, questions))
  if (packets.length === 0) return { paths: [], leftOut: 0 }
  const reader = await PacketReader.open(look, signal)
  const paths: ExplainedPath[] = []
  for (const { frontend, source, destination, port, protocol, because } of packets.slice(0, MAX_PATHS)) {
    const base = { frontend, source: source ?? null, destination }
    if (because === '')
      paths.push({ ...base, ...(await predict(reader, { source, destination, port, protocol }, signal)) })
    else paths.push({ ...base, path: null, because })
  }
  return { paths, leftOut: Math.max(0, packets.length - MAX_PATHS) }
}

async function predict(
  reader: PacketReader,
  packet: Parameters<PacketReader['explain']>[0],
  signal: AbortSignal,
): Promise<Pick<ExplainedPath, 'path' | 'because'>> {
  try {
    return { path: await reader.explain(packet, signal), because: '' }
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    return { path: null, because: `the kernel cannot be asked: ${error.message}` }
  }
}

interface AskedPacket {
  readonly frontend: FrontendKey
  readonly source: string | undefined
  readonly destination: string
  readonly port: number
  readonly protocol: 'tcp' | 'udp' | 'sctp'
  /** Why there is no path; '' when there may be one. */
  readonly because: string
}

/** The packets to one frontend: one for each source of its family. */
export function packetsTo(frontend: FrontendKey, { sources, nodeIps }: PathQuestions): readonly AskedPacket[] {
  const family = familyOfKey(frontend)
  const everywhere = parseNodePortKey(frontend)
  const { port, protocol } = everywhere ?? parseFrontendKey(frontend)
  const destination = everywhere === undefined ? parseFrontendKey(frontend).address : (nodeIps[family] ?? '')
  const base = { frontend, destination, port, protocol }
  if (destination === '') return [{ ...base, source: undefined, because: `no ${family} address of this node is known` }]
  if (sources === undefined) return [{ ...base, source: undefined, because: '' }]
  const own = sources.filter((source) => familyOf(source) === family)
  if (own.length > 0) return own.map((source) => ({ ...base, source, because: '' }))
  return [{ ...base, source: sources[0], because: `the source has no ${family} address, so it cannot connect there` }]
}
