/** Opens the mode that the configuration names. The code of iptables mode is loaded only where it is used. */
import { IpvsMode } from './ipvs/mode.ts'
import type { Mode, ModeOptions } from './mode.ts'

/** Opens the kernel and changes nothing. Rejects with `module-missing` and the like when the mode cannot work here. */
export async function openMode(options: ModeOptions): Promise<Mode> {
  if (options.configuration().mode === 'ipvs') return IpvsMode.open(options)
  const { IptablesMode } = await import('./iptables/mode.ts')
  return IptablesMode.open(options)
}
