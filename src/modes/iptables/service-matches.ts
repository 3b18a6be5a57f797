/**
 * Asks the kernel for the matches of x_tables that rules of Services need, and reports those that
 * are missing.
 */
import { openNetfilter } from '../../../native/open.ts'
import type { Problem } from '../../values/errors.ts'
import { lacksMatch } from '../missing-match.ts'
import type { ModeOptions } from '../mode.ts'
import type { ServiceMatches } from './dataplane.ts'
import type { IptablesKernel } from './kernel.ts'

/** undefined: the kernel cannot be asked now. Never rejects. */
export async function askForMatches(
  kernel: IptablesKernel,
  { problems, log }: Pick<ModeOptions, 'problems' | 'log'>,
  signal: AbortSignal,
): Promise<ServiceMatches | undefined> {
  try {
    const matches = await findServiceMatches(kernel, signal)
    const report = (match: string, isThere: boolean, effect: string): void => {
      const message = `the kernel has no match "${match}": ${effect}; load the module (modprobe xt_${match})`
      const missing: Problem = { code: 'match-missing', about: 'node', subject: `module xt_${match}`, message }
      problems.report('iptables', match, isThere ? [] : [missing])
    }
    report('recent', matches.hasRecent, 'Services with session affinity are served without it')
    report('statistic', matches.hasStatistic, 'new connections to a Service all go to one endpoint')
    return matches
  } catch (error) {
    if (!signal.aborted) log.warn('Cannot query the kernel for matches', { error })
    return undefined
  }
}

/** Asks for the matches that rules of Services need; an unknown answer counts as there. */
export async function findServiceMatches(
  { iptables, families }: IptablesKernel,
  signal: AbortSignal,
): Promise<ServiceMatches> {
  const netlink = iptables.choice.mode === 'nft' ? openNetfilter() : undefined
  try {
    const has = async (name: string): Promise<boolean> => {
      for (const family of families) if (await lacksMatch(netlink, name, family, signal)) return false
      return true
    }
    return { hasRecent: await has('recent'), hasStatistic: await has('statistic') }
  } finally {
    netlink?.close()
  }
}
