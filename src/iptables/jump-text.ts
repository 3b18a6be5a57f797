/**
 * The text of our jumps. What could break: a jump is found by this text; a changed comment leaves the old one behind.
 */
import type { JumpPlace } from './chain-names.ts'
import { quoteWord } from './rule-text.ts'

/** `-m comment --comment "kubernetes service portals" -j KUBE-SERVICES` */
export function jumpRule({ comment, to }: JumpPlace): string {
  return `-m comment --comment ${quoteWord(comment)} -j ${to}`
}
