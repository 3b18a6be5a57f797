/** Runs exec credential plugins of kubeconfigs as programs of this host. */
import { findProgram, runProgram, searchPath } from '../node/programs.ts'
import { CodedError } from '../values/errors.ts'
import type { PluginCall, PluginResult, RunPlugin } from '../watch/api/exec-plugin.ts'

/** client-go has no limit. A plugin that asks somebody in a browser never ends here: there is nobody. */
const DEADLINE_MS = 60_000

/** @param deadlineMs after which a plugin is killed with everything that it started */
export function execPluginRunner(deadlineMs = DEADLINE_MS): RunPlugin {
  return async ({ command, args, env }: PluginCall): Promise<PluginResult | undefined> => {
    const program = command.includes('/') ? command : await findProgram(command, searchPath(process.env['PATH']))
    if (program === undefined) return undefined
    const signal = new AbortController().signal
    try {
      const call = { program, args, env: { ...process.env, ...env }, deadlineMs, withDescendants: true, signal }
      return await runProgram(call)
    } catch (error) {
      if (error instanceof CodedError && error.code === 'program-missing') return undefined
      throw error
    }
  }
}
