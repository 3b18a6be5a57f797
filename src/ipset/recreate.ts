/**
 * Replaces a set with a new one that has the same entries: to enlarge it, or because its parameters
 * are wrong. Rules refer to the set and must match all the time, so the new set is filled under
 * another name and swapped; a failure before the swap leaves the old set unchanged.
 * @impure
 */
import { MessageBatch } from '../netlink/batch.ts'
import { newBudget } from '../values/event-loop.ts'
import { type SetDefinition, type SetName, temporaryName } from './catalogue.ts'
import { encodeEntries, MAX_ENTRIES } from './codec-entry.ts'
import type { SetRequests } from './connection.ts'
import { codeOf, ipsetError, named } from './errors.ts'
import type { SetParameters } from './types.ts'

/**
 * Rejects with `ipset-type-in-use` when the set has another type and a rule refers to it. Entries
 * of a set of another type are lost. Afterwards no temporary set is left.
 */
export async function recreate(
  ipset: SetRequests,
  set: SetDefinition,
  parameters: SetParameters,
  options: { readonly signal: AbortSignal; readonly hashSize?: number },
): Promise<void> {
  const { signal } = options
  const other = temporaryName(set)
  await ipset.destroy(other)
  await ipset.create(other, set.type, parameters, { ...options, exclusive: true })
  try {
    await copyEntries(ipset, set, other, signal)
    await exchange(ipset, set.name, other)
  } catch (error) {
    await ipset.destroy(other).catch(() => undefined)
    throw error
  }
  // If this fails, the next read of all sets finds the temporary set.
  await ipset.destroy(other).catch(() => undefined)
}

/** Exceptions (nomatch) are not ours and are not copied. */
async function copyEntries(ipset: SetRequests, set: SetDefinition, to: SetName, signal: AbortSignal): Promise<void> {
  const entries = (await ipset.listEntries(set, { signal })) ?? []
  const texts = entries.filter(({ noMatch }) => noMatch !== true).map(({ entry }) => entry)
  const batch = new MessageBatch(32 << 10)
  const budget = newBudget()
  for (let from = 0; from < texts.length; from += MAX_ENTRIES) {
    signal.throwIfAborted()
    encodeEntries(batch, 'ADD', set, texts.slice(from, from + MAX_ENTRIES), to)
    const [outcome] = await ipset.transact(batch)
    batch.reset()
    if (outcome !== undefined) throw named(outcome, `copy ${set.name} to ${to}`)
    if (budget.spent()) await budget.turn()
  }
}

/**
 * Swaps the sets. Where the types differ it destroys the old one first, which works only while
 * nothing refers to it.
 */
async function exchange(ipset: SetRequests, name: SetName, other: SetName): Promise<void> {
  try {
    await ipset.swap(other, name)
  } catch (error) {
    if (codeOf(error) !== 'IPSET_ERR_TYPE_MISMATCH') throw error
    try {
      await ipset.destroy(name)
    } catch (cause) {
      if (codeOf(cause) !== 'IPSET_ERR_BUSY') throw cause
      throw ipsetError('ipset-type-in-use', `the set ${name} has another type and is in use by a rule`, { cause })
    }
    await ipset.rename(other, name)
  }
}
