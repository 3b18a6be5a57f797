/** What the command line gives to the daemon, and how the daemon ends. */
import type { KubeProxyConfiguration } from '../config/types.ts'
import type { ProcessLog } from '../serve/log.ts'
import type { PassTotals } from './pass-log.ts'
import type { SourceSettings } from './sources.ts'

export interface DaemonOptions extends SourceSettings {
  /** The daemon ends after one pass over everything, and serves no ports. */
  readonly once: boolean
  /** The file that the configuration was read from; the daemon follows it. Absent: flags only. */
  readonly configurationFile?: string | undefined
  /** Reads that file again, with the flags that count with a file. Rejects with what is wrong with it. */
  readonly readConfiguration: () => Promise<KubeProxyConfiguration>
  /** For /flagz: every flag with its value. */
  readonly flags: () => Readonly<Record<string, string>>
  /** Resolves with the name of the signal that asks the daemon to stop. */
  readonly stop: Promise<string>
  /** SIGHUP stops the daemon unless this function, called for each one, returns true. */
  readonly onHangup: (take: () => boolean) => void
  readonly log: ProcessLog
}

export interface DaemonEnd {
  /** The daemon was asked to stop. Otherwise it ended after its pass. */
  readonly isStopped: boolean
  readonly passes: PassTotals
}
