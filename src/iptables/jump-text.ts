/**
 * The text of our jumps. What could break: a jump is found by this text; a changed comment leaves the old one behind.
 */
import type { JumpPlace } from './chain-names.ts'
import { quoteWord } from './rule-text.ts'

const NEW = '-m conntrack --ctstate NEW'

/** `-m comment --comment "kubernetes service portals" -j KUBE-SERVICES` */
export function jumpRule({ comment, to, onlyNew }: JumpPlace): string {
  const match = onlyNew === true ? `${NEW} ` : ''
  return `${match}${comment === '' ? '' : `-m comment --comment ${quoteWord(comment)} `}-j ${to}`
}

/** Whether this rule is a jump that only new connections take. */
export function isOnlyNew(rule: string): boolean {
  return rule.includes('--ctstate NEW')
}
