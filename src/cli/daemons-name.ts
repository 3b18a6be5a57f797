/** The node's name as the running daemon has it, for commands that compute what that daemon wants. */
import { type Answered, isUnknown } from '../inspect/daemon-client.ts'
import type { DaemonView } from '../inspect/view.ts'
import type { Settings } from '../start/settings.ts'

/**
 * The settings with the name of the daemon's Node, where neither a flag nor the file gives one: the
 * daemon may have got its name from a flag that the command does not have, and with another one
 * every endpoint would be remote.
 */
export function withDaemonsName(settings: Settings, answer: Answered<DaemonView>): Settings {
  const isGiven = settings.configuration.hostnameOverride.trim() !== ''
  return isGiven || isUnknown(answer) ? settings : { ...settings, nodeName: answer.node.name }
}
