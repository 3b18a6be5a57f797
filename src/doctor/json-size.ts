/**
 * How large JSON will be once it is parsed, from its text alone: a few kilobytes of a compressed
 * file can hold millions of empty objects, each of which takes tens of bytes. The text need not be
 * valid.
 */

export interface JsonSize {
  /** Objects and lists within each other. */
  readonly depth: number
  /** At least the number of members, items, objects and lists. */
  readonly values: number
}

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c]
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]

export function jsonSize(text: string): JsonSize {
  let [depth, deepest, values] = [0, 0, 0]
  let isInText = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (isInText) {
      if (code === BACKSLASH) at++
      else if (code === QUOTE) isInText = false
    } else if (code === QUOTE) isInText = true
    else if (code === COMMA) values++
    else if (code === OPEN_OBJECT || code === OPEN_LIST) {
      values++
      depth++
      if (depth > deepest) deepest = depth
    } else if (code === CLOSE_OBJECT || code === CLOSE_LIST) depth--
  }
  return { depth: deepest, values }
}
