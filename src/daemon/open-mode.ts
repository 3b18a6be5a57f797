/** Opens the mode that the configuration names, or iptables mode when the kernel cannot do ipvs mode. */
import { type Fallback, fallbackFor, logFallback } from '../modes/fallback.ts'
import { IpvsMode } from '../modes/ipvs/mode.ts'
import type { Mode, ModeOptions } from '../modes/mode.ts'

export interface OpenedMode {
  readonly mode: Mode
  /** Why the mode is not the configured one; absent when it is. */
  readonly fallback?: Fallback
}

/** How modes are opened; a test replaces them. */
export interface ModeOpeners {
  readonly ipvs: (options: ModeOptions) => Promise<Mode>
  readonly iptables: (options: ModeOptions, isFallback: boolean) => Promise<Mode>
}

export interface OpenModeOptions {
  /** False: ipvs mode or none, whatever the configuration says. Default true. */
  readonly mayFallBack?: boolean | undefined
  readonly openers?: ModeOpeners
}

/** The code of iptables mode is loaded only where it is used. */
const OPENERS: ModeOpeners = {
  ipvs: (options) => IpvsMode.open(options),
  iptables: async (options, isFallback) =>
    (await import('../modes/iptables/mode.ts')).IptablesMode.open(options, isFallback),
}

/**
 * Opens the kernel and changes nothing. Logs one warning when it falls back. Rejects with
 * `iptables-missing` and the like when the mode cannot work here, and without a fallback with
 * `ipvs-missing` and the like.
 */
export async function openMode(
  options: ModeOptions,
  { mayFallBack = true, openers = OPENERS }: OpenModeOptions = {},
): Promise<OpenedMode> {
  const configuration = options.configuration()
  if (configuration.mode === 'iptables') return { mode: await openers.iptables(options, false) }
  try {
    return { mode: await openers.ipvs(options) }
  } catch (error) {
    const fallback = mayFallBack ? fallbackFor(error, configuration) : undefined
    if (fallback === undefined) throw error
    const mode = await openers.iptables(options, true)
    logFallback(fallback, options.log)
    return { mode, fallback }
  }
}
