/**
 * The last guard against secrets in the log: what looks like a credential is taken out of a finished line. Pure.
 * What could break: it is a guard, not a licence: whoever writes a line keeps tokens and keys out of it.
 */

/** Said in place of what was taken out. */
const INSTEAD = '[redacted]'

/** One look that nearly every line passes. */
const SUSPECT = /bearer|basic |eyJ|PRIVATE KEY|:\/\/[^\s/"]*@|token|password|key-data|authorization/i

const SECRETS: readonly (readonly [pattern: RegExp, replacement: string])[] = [
  [/\b(bearer|basic) +[\w+/=.~-]{6,}/gi, `$1 ${INSTEAD}`],
  // A JSON Web Token, as service accounts have.
  [/(?<![\w-])eyJ[\w-]+\.[\w-]+\.?[\w-]*/g, INSTEAD],
  [/-----BEGIN ([A-Z ]*PRIVATE KEY)-----[^]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g, INSTEAD],
  [/(:\/\/)[^\s/"@]+@/g, `$1${INSTEAD}@`],
  [/((?:token|password|key-data|authorization)\\*["']?\s*[:=]\s*\\*["']?)[\w+/=.~-]{8,}/gi, `$1${INSTEAD}`],
]

/** The line without what looks like a credential. */
export function withoutSecrets(line: string): string {
  if (!SUSPECT.test(line)) return line
  return SECRETS.reduce((text, [pattern, replacement]) => text.replace(pattern, replacement), line)
}
