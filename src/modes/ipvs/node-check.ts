/**
 * The start check of this node put together, and what it finds as log lines. It changes nothing on the node, whatever it
 * finds; what the findings mean is for the caller.
 */
import { schedulerOf } from '../../ipvs/scheduler.ts'
import type { KubeProxyConfiguration } from '../../config/types.ts'
import { chooseBackEnd } from '../iptables-back-end.ts'
import { kernelFamilies } from '../../node/families.ts'
import type { IptablesChoice } from '../../node/iptables-choice.ts'
import { checkStart, type Finding, type StartCheck } from '../../node/start-check.ts'
import { kernelRelease } from '../../node/host.ts'
import { ipvsSysctls } from '../../node/kernel-settings.ts'
import { CodedError } from '../../values/errors.ts'
import type { Log } from '../../values/log.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { KernelQuestions } from './kernel-questions.ts'

type BackEnd = Pick<IptablesChoice, 'mode' | 'unusable'>

export interface NodeCheckOptions {
  readonly configuration: KubeProxyConfiguration
  /** Families that are served; without any, those that the kernel allows. */
  readonly families?: readonly IpFamily[]
  /** Back end of iptables where it has been chosen; else it is chosen here, which may start iptables-save. */
  readonly iptables?: BackEnd
  readonly signal: AbortSignal
}

/** Asks kernel and node for everything that ipvs mode needs. Rejects with `native-unavailable` or when aborted. */
export async function checkNode(options: NodeCheckOptions): Promise<StartCheck> {
  const { configuration, signal } = options
  const families = options.families ?? kernelFamilies().families
  const iptables = options.iptables ?? (await chosenBackEnd(families, signal))
  const tried = iptables?.mode === 'nft' ? families.filter((family) => iptables.unusable[family] === undefined) : []
  const questions = new KernelQuestions(iptables?.mode, tried, signal)
  try {
    const scheduler = schedulerOf(configuration.ipvs.scheduler)
    const sysctls = ipvsSysctls(configuration.ipvs.strictARP, kernelRelease())
    return await checkStart({ families, scheduler, iptables: iptables?.mode }, sysctls, (question) =>
      questions.ask(question),
    )
  } finally {
    questions.close()
  }
}

async function chosenBackEnd(families: readonly IpFamily[], signal: AbortSignal): Promise<BackEnd | undefined> {
  try {
    return await chooseBackEnd(families, signal)
  } catch (error) {
    if (error instanceof CodedError && error.code === 'iptables-missing') return undefined
    throw error
  }
}

/** One line of the log for each finding. */
export function logFindings(findings: readonly Finding[], log: Log): void {
  for (const { severity, what, module, effect } of findings) {
    const fields = { what, ...(module === '' ? {} : { module }), effect }
    if (severity === 'warning') log.warn('This node lacks something', fields)
    else log.error('This node lacks something', fields)
  }
}
