/**
 * Reads files of daemons that concern kube-ipvs0 and lo: `.network` of systemd-networkd, lists of
 * NetworkManager, and lines of sysctl.d(5).
 */
import { ownMember } from '../values/own-member.ts'
import { SERVICE_DEVICE } from '../values/well-known.ts'

/** Longest list of patterns that is looked at, so that a strange file costs no time. */
const MAX_PATTERNS = 100

/** Whether a pattern with `*` and `?` matches a name, in time proportional to the product of their lengths. */
export function globMatches(pattern: string, name: string): boolean {
  let [at, from, star, mark] = [0, 0, -1, 0]
  while (from < name.length) {
    if (pattern[at] === '*') [star, mark, at] = [at, from, at + 1]
    else if (at < pattern.length && (pattern[at] === '?' || pattern[at] === name[from])) [at, from] = [at + 1, from + 1]
    else if (star >= 0) [at, from, mark] = [star + 1, mark + 1, mark + 1]
    else return false
  }
  while (pattern[at] === '*') at++
  return at === pattern.length
}

/** Keys of [Match] that say something about a device, and what they see of it. Any other key does not match it. */
type SeenByKey = Readonly<Record<string, string>>
const SERVICE: SeenByKey = { Name: SERVICE_DEVICE, Kind: 'dummy', Type: 'ether' }
export const LOOPBACK: SeenByKey = { Name: 'lo', Type: 'loopback' }

/** Between the devices of a list of NetworkManager. */
export const LIST_BREAK = /[;,\s]+/

/** The parts of `key = value` without spaces around them; the key is '' in any other line. */
export function settingOf(line: string): readonly [key: string, value: string] {
  const equals = line.indexOf('=')
  return equals < 0 ? ['', ''] : [line.slice(0, equals).trim(), line.slice(equals + 1).trim()]
}

/**
 * What a `.network` file does with a device; undefined when it does not match it. An empty file, or a
 * link to /dev/null, masks others of its name. One without a match is for every device: systemd
 * before 250 takes it so, and later ones leave it out.
 */
export function readNetworkFile(
  text: string,
  device: SeenByKey = SERVICE,
): { readonly match: string; readonly isUnmanaged: boolean } | undefined {
  const matches: string[] = []
  let section = ''
  let isUnmanaged = false
  let isMatch = true
  for (const line of text.split('\n')) {
    section = /^\s*\[(\w+)\]/.exec(line)?.[1] ?? section
    const [key, value] = settingOf(line)
    if (section === 'Link' && key === 'Unmanaged') isUnmanaged = isTrue(value)
    if (section !== 'Match' || !/^\w+$/.test(key)) continue
    matches.push(`${key}=${value}`)
    isMatch &&= matchesKey(ownMember(device, key), value)
  }
  return isMatch && text !== '' ? { match: matches.join(' '), isUnmanaged } : undefined
}

/** A list of patterns; with `!` in front it matches what none of them matches. */
function matchesKey(seen: string | undefined, value: string): boolean {
  if (seen === undefined) return false
  const isInverted = value.startsWith('!')
  const patterns = (isInverted ? value.slice(1) : value).split(/\s+/).slice(0, MAX_PATTERNS)
  return patterns.some((pattern) => pattern !== '' && globMatches(pattern, seen)) !== isInverted
}

/** A boolean of systemd. */
export const isTrue = (value: string): boolean => /^(1|yes|y|true|t|on)$/i.test(value)

/** The settings that a file of sysctl.d(5) writes, in order, by the name below /proc/sys. Patterns are left out. */
export function readSysctlFile(text: string): readonly (readonly [name: string, value: string])[] {
  return text.split('\n').flatMap((line) => {
    const [written, value] = settingOf(line)
    const key = written.replace(/^-/, '')
    if (!/^[\w./-]+$/.test(key)) return []
    // The first separator decides: a name with slashes keeps its dots.
    const isDotted = /^[^/]*\./.test(key)
    const name = isDotted ? key.replace(/[./]/g, (letter) => (letter === '.' ? '/' : '.')) : key
    return [[name, value] as const]
  })
}
