/** How a table by name is asked with a text that is not known beforehand. */

/** The member of this name; undefined for `constructor`, `toString` and the like, which every object has. */
export function ownMember<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined
}
