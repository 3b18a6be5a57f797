/** Colours of what is printed. Output that is piped has none. */
import { randomBytes } from 'node:crypto'
import { styleText } from 'node:util'

export type StyleFormat = Parameters<typeof styleText>[0]

/** Colours a text, or returns it as it is. */
export type Style = (format: StyleFormat, text: string) => string

/**
 * Colours only for a terminal, and not when NO_COLOR is set to anything (https://no-color.org) or
 * the terminal is dumb.
 */
export function styleFor(
  stream: { readonly isTTY?: boolean | undefined },
  environment: Readonly<Record<string, string | undefined>>,
): Style {
  const plain = stream.isTTY !== true || (environment['NO_COLOR'] ?? '') !== '' || environment['TERM'] === 'dumb'
  if (plain) return (_, text) => text
  const mark = ownMark()
  return (format, text) => {
    // Without validateStream node would check process.stdout, whichever stream this is.
    const codes = styleText(format, PLACE, { validateStream: false }).replaceAll(CODE, `${mark}$1m`)
    const [before = '', after = ''] = codes.split(PLACE)
    return `${before}${text}${after}`
  }
}

/** Stands for a text between codes. */
const PLACE = '|'

/** A code of `styleText`: ESC, `[`, a number, `m`. */
// oxlint-disable-next-line no-control-regex
const CODE = /\x1b\[(\d+)m/g

let markOfProcess: string | undefined

/** What stands for ESC and `[` in codes of this program until a line is written: no text of others can contain it. */
function ownMark(): string {
  markOfProcess ??= `\x1b${randomBytes(8).toString('hex')}[`
  return markOfProcess
}

/** A text with the codes of `styleFor` as a terminal reads them; `escape` gets what is between them. */
export function finishStyles(text: string, escape: (text: string) => string): string {
  if (markOfProcess === undefined || !text.includes(markOfProcess)) return escape(text)
  return text
    .split(markOfProcess)
    .map((part, index) => {
      const code = index === 0 ? undefined : /^\d+m/.exec(part)?.[0]
      return code === undefined ? escape(part) : `\x1b[${code}${escape(part.slice(code.length))}`
    })
    .join('')
}
