/**
 * Colours, and when there are none.
 * What could break: output that is piped or captured must be plain; the decision is made once for each stream, here.
 */
import { styleText } from 'node:util'

export type StyleFormat = Parameters<typeof styleText>[0]

/** Gives a text its look, or gives it back as it is. */
export type Style = (format: StyleFormat, text: string) => string

/**
 * Colours only for a terminal, and not when NO_COLOR is set to anything (https://no-color.org) or the terminal is dumb.
 */
export function styleFor(
  stream: { readonly isTTY?: boolean | undefined },
  environment: Readonly<Record<string, string | undefined>>,
): Style {
  const plain = stream.isTTY !== true || (environment['NO_COLOR'] ?? '') !== '' || environment['TERM'] === 'dumb'
  // The stream was looked at already; node would ask process.stdout instead.
  return plain ? (_, text) => text : (format, text) => styleText(format, text, { validateStream: false })
}
