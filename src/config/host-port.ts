/**
 * `host:port` taken apart as Go's net.SplitHostPort does.
 * What could break: the reasons are Go's own texts, recorded letter by letter.
 */

export type HostPort = { readonly host: string; readonly port: string } | { readonly error: string }

/** Both parts as written; neither is checked. IPv6 addresses stand in square brackets. */
export function splitHostPort(text: string): HostPort {
  const fail = (why: string) => ({ error: `address ${text}: ${why}` })
  const colon = text.lastIndexOf(':')
  if (colon < 0) return fail('missing port in address')
  let host: string
  // Where a bracket would be one too many.
  let openFrom = 0
  let closeFrom = 0
  if (text.startsWith('[')) {
    const end = text.indexOf(']')
    if (end < 0) return fail("missing ']' in address")
    if (end + 1 === text.length) return fail('missing port in address')
    if (end + 1 !== colon) return fail(text[end + 1] === ':' ? 'too many colons in address' : 'missing port in address')
    host = text.slice(1, end)
    openFrom = 1
    closeFrom = end + 1
  } else {
    host = text.slice(0, colon)
    if (host.includes(':')) return fail('too many colons in address')
  }
  if (text.includes('[', openFrom)) return fail("unexpected '[' in address")
  if (text.includes(']', closeFrom)) return fail("unexpected ']' in address")
  return { host, port: text.slice(colon + 1) }
}
