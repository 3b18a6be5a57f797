/**
 * What doctor finds out about an API server that does not answer: where its address leads on this
 * node. A node that is cut off may be so because of what a proxy wrote here.
 * @impure
 */
import type { Look } from '../modes/look/look.ts'
import { familyOf, isLoopback, parseAddress } from '../values/address.ts'
import { errorText } from '../values/errors.ts'
import type { ApiServerFact } from './cluster-facts.ts'

const MAX_TEXT = 300

/**
 * Rejects when the kernel refuses an answer. @param server its URL; undefined: no kubeconfig says it
 * @param error why it does not answer, or why it is not known
 */
export async function readSilentServer(
  look: Pick<Look, 'rtnetlink' | 'ipvs' | 'virtualIps'>,
  server: string | undefined,
  error: unknown,
  signal: AbortSignal,
): Promise<ApiServerFact> {
  const fact = { code: codeOf(error), reason: errorText(error).slice(0, MAX_TEXT) }
  if (server === undefined || !URL.canParse(server)) return { server: '', place: 'unknown', ...fact }
  const url = new URL(server)
  return { server: url.origin.slice(0, MAX_TEXT), place: await placeOf(url, look, signal), ...fact }
}

async function placeOf(
  server: URL,
  look: Pick<Look, 'rtnetlink' | 'ipvs' | 'virtualIps'>,
  signal: AbortSignal,
): Promise<ApiServerFact['place']> {
  const address = parseAddress(server.hostname.replace(/^\[|\]$/g, ''))
  if (address === undefined) return 'name'
  const port = Number(server.port) || (server.protocol === 'http:' ? 80 : 443)
  const ipvs = await look.ipvs(signal)
  const service = { family: familyOf(address), address, protocol: 'tcp', port } as const
  if ((await ipvs?.getService(service, { signal })) !== undefined) return 'virtual-server'
  const { device, routes } = await look.virtualIps(signal)
  if (routes.has(address)) return 'virtual-ip'
  const own = (await look.rtnetlink.listAddresses({ signal })).filter((one) => one.address === address)
  if (own.some(({ interfaceIndex }) => interfaceIndex === device?.index)) return 'virtual-ip'
  return own.length > 0 || isLoopback(address) ? 'here' : 'elsewhere'
}

/** The code of the innermost error, that of the kernel or of TLS; '' where there is none. */
function codeOf(error: unknown): string {
  let code = ''
  for (let at = error; at instanceof Error; at = at.cause)
    if ('code' in at && typeof at.code === 'string') code = at.code.slice(0, 60)
  return code
}
