/**
 * What a back end of iptables is used for on this node: the chains of kubelet, and how many rules
 * it has.
 * @impure
 */
import { inPortions } from '../iptables/portions.ts'
import { saveLines } from '../iptables/save-lines.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { FoundPrograms, IptablesBackEnd } from './installed-iptables.ts'
import { type RunProgram, runProgram } from './programs.ts'

/**
 * Chains that kubelet creates in the mangle table of the back end that it uses, so that other
 * programs find out (KEP-3178).
 */
const KUBELET_CHAIN = /^:(KUBE-IPTABLES-HINT|KUBE-KUBELET-CANARY) /

/** By what iptables-save prints, or by the tables that can be printed where the whole cannot. */
export interface BackEndUse {
  /** kubelet has its chains in it. */
  hasKubelet: boolean
  rules: number
}

/** The first one has the chains of kubelet. */
const TABLES = ['mangle', 'nat', 'filter']

export interface UseOptions {
  readonly families: readonly IpFamily[]
  readonly signal: AbortSignal
  readonly run?: RunProgram
}

/**
 * Asks the programs of a back end. A failure is ignored: another table, the other back end or
 * family may still show what is in use.
 */
export async function useOfBackEnd(
  options: UseOptions,
  programs: FoundPrograms['plain'],
  mode: IptablesBackEnd,
): Promise<BackEndUse> {
  const use: BackEndUse = { hasKubelet: false, rules: 0 }
  const look = (line: string): void => {
    if (line.startsWith('-A ')) use.rules++
    else if (KUBELET_CHAIN.test(line)) use.hasKubelet = true
  }
  const print = async (program: string, args: readonly string[]): Promise<string | undefined> => {
    try {
      const result = await (options.run ?? runProgram)({ program, args, signal: options.signal })
      return result.exitCode === 0 ? result.output : undefined
    } catch {
      options.signal.throwIfAborted()
      return undefined
    }
  }
  await Promise.all(
    options.families.map(async (family) => {
      const program = programs[family]?.save
      if (program === undefined) return
      const whole = await print(program, [])
      // Legacy would create a table that it is asked for.
      const seen =
        whole ??
        (mode === 'nft' ? (await Promise.all(TABLES.map((table) => print(program, ['-t', table])))).join('') : '')
      await inPortions(saveLines(seen), look, options.signal)
    }),
  )
  return use
}
