/**
 * Errors of decoding a configuration file are compared by what they mean: that the file is refused
 * while it is decoded, and which field has the wrong type. kube-proxy says that in the words of
 * Go's decoders; row 66 of docs/deviations.md.
 */

const STAGE = 'failed to decode: '
/** An error in a line of the log: in quotes, or of several lines. */
const LOGGED = /err=(?:"(?:[^"\\]|\\.)*"|<\n[^]*?\n >)/g
const GO_FIELD = /Go struct field \w*\.([\w.]+) of type/
const OUR_FIELD = /failed to decode: (?:line \d+: )?([A-Za-z][\w.[\]]*): /

/** Both errors, ours in the recorded words where it means the same. */
export function ourError(recorded: string, ours: string): string {
  if (!recorded.includes(STAGE) || !ours.includes(STAGE)) return ours
  const wanted = GO_FIELD.exec(recorded)?.[1]
  // Go names neither the position in a list nor the key of a map, and inline blocks by their type.
  const named = OUR_FIELD.exec(ours)?.[1]?.replace(/\[\d+\]/g, '') ?? ''
  const isNamed = wanted === undefined || named === wanted || named.startsWith(`${wanted}.`)
  return isNamed ? recorded : ours
}

/** The same for the errors in a log, in their order. */
export function ourLog(recorded: string, ours: string): string {
  const errors = recorded.match(LOGGED) ?? []
  let index = 0
  return ours.replace(LOGGED, (error) => ourError(errors[index++] ?? '', error))
}
