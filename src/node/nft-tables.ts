/**
 * What nftables mode of kube-proxy leaves behind: its tables, which are wholly its own.
 * What could break: without the program nft nothing can be said about them, and nothing is.
 */
import { CodedError } from '../values/errors.ts'
import { findProgram, type RunProgram, runProgram, searchPath } from './programs.ts'

/** A table named `kube-proxy` of one nft family. */
export type ProxyTable = 'ip' | 'ip6' | 'inet'

export class NftTables {
  readonly #program: string
  readonly #run: RunProgram

  private constructor(program: string, run: RunProgram) {
    this.#program = program
    this.#run = run
  }

  /** Undefined when the program nft is not there. */
  static async find(run: RunProgram = runProgram): Promise<NftTables | undefined> {
    const program = await findProgram('nft', searchPath(process.env['PATH']))
    return program === undefined ? undefined : new NftTables(program, run)
  }

  /** kube-proxy's tables; none where the kernel has no nf_tables. */
  async list(signal: AbortSignal): Promise<readonly ProxyTable[]> {
    const { exitCode, output } = await this.#run({ program: this.#program, args: ['list', 'tables'], signal })
    if (exitCode !== 0) return []
    return (['ip', 'ip6', 'inet'] as const).filter((family) =>
      output.split('\n').includes(`table ${family} kube-proxy`),
    )
  }

  /** Deletes one with all that is in it. Rejects with `nft-failed`. */
  async delete(table: ProxyTable, signal: AbortSignal): Promise<void> {
    const args = ['delete', 'table', table, 'kube-proxy']
    const { exitCode, errorText } = await this.#run({ program: this.#program, args, signal })
    if (exitCode !== 0) throw new CodedError('nft-failed', `nft ${args.join(' ')}: ${errorText.trim()}`)
  }
}

/** As an operator would type it. */
export function deletionOf(table: ProxyTable): string {
  return `nft delete table ${table} kube-proxy`
}
