/**
 * Settings of the kernel that a mode writes once at its start, and what the log and the list of
 * problems say about them.
 */
import type { KubeProxyConfiguration } from '../config/types.ts'
import { conntrackSettings, type KernelSetting } from '../node/kernel-settings.ts'
import { processorCount } from '../node/host.ts'
import { applySysctls, type SettingListener } from '../node/sysctl.ts'
import type { ProblemLog } from '../serve/problem-log.ts'
import type { Log } from '../values/log.ts'

export interface SettingsOptions {
  readonly configuration: KubeProxyConfiguration
  readonly problems: ProblemLog
  readonly log: Log
}

const SYSCTLS = '/proc/sys/'

/** Settings of connection tracking. As in kube-proxy they are written before anything that may end the process. */
export function setConntrack({ configuration: { conntrack }, problems, log }: SettingsOptions): void {
  const onConntrack: SettingListener = ({ path, value }) => {
    if (path.startsWith(SYSCTLS)) log.info('Set sysctl', { entry: path.slice(SYSCTLS.length), value })
    else log.info('Setting conntrack hashsize', { conntrackHashsize: value })
  }
  const conntrackProblems = applySysctls(conntrackSettings(conntrack, processorCount()), '', onConntrack)
  problems.report('sysctl', 'conntrack', conntrackProblems)
}

/** Settings of the mode. */
export function setSysctls(settings: readonly KernelSetting[], { problems, log }: SettingsOptions): void {
  problems.report('sysctl', 'sysctl', applySysctls(settings, '', settingLogger(log)))
}

/** Logs each setting that was changed. */
export function settingLogger(log: Log): SettingListener {
  return ({ path, value }, before) =>
    log.info('Changed sysctl', { name: path.slice(SYSCTLS.length), before, after: value })
}
