/**
 * The tables that nftables mode of kube-proxy leaves behind; everything in them is kube-proxy's. They are listed and deleted
 * by the program nft, and without that program they are ignored.
 * @impure
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

  /** Undefined if the program nft is not installed. */
  static async find(run: RunProgram = runProgram): Promise<NftTables | undefined> {
    const program = await findProgram('nft', searchPath(process.env['PATH']))
    return program === undefined ? undefined : new NftTables(program, run)
  }

  /** kube-proxy's tables; empty if the kernel has no nf_tables. */
  async list(signal: AbortSignal): Promise<readonly ProxyTable[]> {
    const { exitCode, output } = await this.#run({ program: this.#program, args: ['list', 'tables'], signal })
    if (exitCode !== 0) return []
    return (['ip', 'ip6', 'inet'] as const).filter((family) =>
      output.split('\n').includes(`table ${family} kube-proxy`),
    )
  }

  /** Deletes a table with everything in it. Rejects with `nft-failed`. */
  async delete(table: ProxyTable, signal: AbortSignal): Promise<void> {
    const args = ['delete', 'table', table, 'kube-proxy']
    const { exitCode, errorText } = await this.#run({ program: this.#program, args, signal })
    if (exitCode !== 0) throw new CodedError('nft-failed', `nft ${args.join(' ')}: ${errorText.trim()}`)
  }
}

/** The command that deletes a table, as an operator would type it. */
export function deletionOf(table: ProxyTable): string {
  return `nft delete table ${table} kube-proxy`
}
