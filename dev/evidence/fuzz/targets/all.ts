/** The targets of the fuzzer. A new reader of foreign bytes or texts gets a row here. */
import type { Target } from '../target.ts'
import { ANSWER_TARGETS } from './answers.ts'
import { API_TARGETS } from './api.ts'
import { NETFILTER_TARGETS } from './netfilter.ts'
import { NETLINK_TARGETS } from './netlink.ts'
import { TEXT_TARGETS } from './texts.ts'

export const TARGETS: readonly Target[] = [
  ...NETLINK_TARGETS,
  ...NETFILTER_TARGETS,
  ...API_TARGETS,
  ...TEXT_TARGETS,
  ...ANSWER_TARGETS,
]
