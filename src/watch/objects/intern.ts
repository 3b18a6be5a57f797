/**
 * One copy of texts that repeat through thousands of objects: node names, zones, port names, namespaces.
 * What could break: it must not grow with the cluster's history, so it forgets everything when it is full; equal texts
 * that are two copies cost memory and nothing else.
 */

/** Returns the one copy of a text that it keeps. */
export type Intern = (text: string) => string

/** `limit` is how many different texts it keeps before it starts anew. */
export function createIntern(limit = 16_384): Intern {
  const kept = new Map<string, string>()
  return (text) => {
    if (text === '') return ''
    const known = kept.get(text)
    if (known !== undefined) return known
    if (kept.size >= limit) kept.clear()
    kept.set(text, text)
    return text
  }
}
