/**
 * Cuts metadata.managedFields out of an object's bytes before they are parsed: about half of what the API server sends,
 * and the slowest part to parse, because every field name in it is a property of its own.
 * What could break: the cut is made only where the bytes can mean nothing else. The end is looked for as the closing
 * brackets together with the name that follows metadata in Kubernetes' own field order; inside a JSON string a quote
 * without a backslash before it ends the string, so that these bytes cannot stand in one. Any other order is left whole.
 */

const START = Buffer.from(',"managedFields":[')
/** What follows metadata in a Service or Node, and in an EndpointSlice. */
const ENDS = [Buffer.from(']},"spec":'), Buffer.from(']},"addressType":')]

/** The text of an object or watch event without its first managedFields, or the whole text. The bytes are used up. */
export function textWithoutManagedFields(bytes: Buffer): string {
  const start = bytes.indexOf(START)
  if (start >= 0) {
    for (const marker of ENDS) {
      const end = bytes.indexOf(marker, start + START.length)
      if (end < 0) continue
      // The bracket at `end` closes the array and goes with it. Moving the rest up costs less than joining two texts.
      bytes.copyWithin(start, end + 1)
      return bytes.toString('utf8', 0, bytes.length - (end + 1 - start))
    }
  }
  return bytes.toString('utf8')
}
