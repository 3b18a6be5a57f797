/**
 * Checks whether a text is JSON. The errors are those of Go's encoding/json, recorded verbatim.
 */
import { goQuoteLetter } from './go-text.ts'

/** Go's limit (maxNestingDepth). */
const DEEPEST = 10_000

/** The error of Go's scanner; undefined when the text is one JSON value and nothing else. */
export function goJsonError(text: string): string | undefined {
  const scanner = new Scanner(text)
  return scanner.run()
}

class SyntaxFailure extends Error {}

class Scanner {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  run(): string | undefined {
    try {
      this.#value(0)
      this.#space()
      if (this.#at < this.#text.length) this.#fail('after top-level value')
      return undefined
    } catch (error) {
      if (error instanceof SyntaxFailure) return error.message
      // The stack of this process may overflow before Go's limit.
      if (error instanceof RangeError) return 'exceeded max depth'
      throw error
    }
  }

  #fail(context: string): never {
    const code = this.#text.codePointAt(this.#at)
    if (code === undefined) {
      // Go reads one space after the end, which is an error only inside a value.
      const middle = /^(?:in (?!string literal)|after decimal point)/.test(context)
      throw new SyntaxFailure(middle ? `invalid character ' ' ${context}` : 'unexpected end of JSON input')
    }
    // Go reads bytes: it names the first byte of a letter beyond ASCII.
    const byte = Buffer.from(String.fromCodePoint(code))[0] ?? 0
    const letter = byte === 0x27 ? `'\\''` : byte === 0x22 ? `'"'` : goQuoteLetter(String.fromCharCode(byte))
    throw new SyntaxFailure(`invalid character ${letter} ${context}`)
  }

  #space(): void {
    while (/[ \t\r\n]/.test(this.#text[this.#at] ?? '')) this.#at++
  }

  #value(depth: number): void {
    this.#space()
    const first = this.#text[this.#at] ?? ''
    if (first === '{' || first === '[') {
      if (depth >= DEEPEST) throw new SyntaxFailure('exceeded max depth')
      this.#at++
      if (first === '{') this.#object(depth + 1)
      else this.#array(depth + 1)
    } else if (first === '"') this.#string()
    else if (first === '-' || /\d/.test(first)) this.#number()
    else if (first === 't') this.#literal('true')
    else if (first === 'f') this.#literal('false')
    else if (first === 'n') this.#literal('null')
    else this.#fail('looking for beginning of value')
  }

  #object(depth: number): void {
    this.#space()
    if (this.#text[this.#at] === '}') {
      this.#at++
      return
    }
    for (;;) {
      this.#space()
      if (this.#text[this.#at] !== '"') this.#fail('looking for beginning of object key string')
      this.#string()
      this.#space()
      if (this.#text[this.#at] !== ':') this.#fail('after object key')
      this.#at++
      this.#value(depth)
      this.#space()
      const next = this.#text[this.#at]
      if (next !== ',' && next !== '}') this.#fail('after object key:value pair')
      this.#at++
      if (next === '}') return
    }
  }

  #array(depth: number): void {
    this.#space()
    if (this.#text[this.#at] === ']') {
      this.#at++
      return
    }
    for (;;) {
      this.#value(depth)
      this.#space()
      const next = this.#text[this.#at]
      if (next !== ',' && next !== ']') this.#fail('after array element')
      this.#at++
      if (next === ']') return
    }
  }

  #string(): void {
    this.#at++
    for (;;) {
      const code = this.#text.charCodeAt(this.#at)
      if (Number.isNaN(code) || code < 0x20) this.#fail('in string literal')
      this.#at++
      if (code === 0x22) return
      if (code === 0x5c) this.#escape()
    }
  }

  #escape(): void {
    const letter = this.#text[this.#at] ?? ''
    if (letter === '' || !'bfnrt\\/"u'.includes(letter)) this.#fail('in string escape code')
    this.#at++
    if (letter !== 'u') return
    for (let digit = 0; digit < 4; digit++) {
      if (!/[0-9a-fA-F]/.test(this.#text[this.#at] ?? '')) this.#fail(String.raw`in \u hexadecimal character escape`)
      this.#at++
    }
  }

  #number(): void {
    if (this.#text[this.#at] === '-') {
      this.#at++
      if (!this.#digit()) this.#fail('in numeric literal')
    }
    if (this.#text[this.#at] === '0') this.#at++
    else while (this.#digit()) this.#at++
    if (this.#text[this.#at] === '.') {
      this.#at++
      if (!this.#digit()) this.#fail('after decimal point in numeric literal')
      while (this.#digit()) this.#at++
    }
    if (/[eE]/.test(this.#text[this.#at] ?? '')) {
      this.#at++
      if (/[+-]/.test(this.#text[this.#at] ?? '')) this.#at++
      if (!this.#digit()) this.#fail('in exponent of numeric literal')
      while (this.#digit()) this.#at++
    }
  }

  #digit(): boolean {
    return /\d/.test(this.#text[this.#at] ?? '')
  }

  #literal(word: string): void {
    for (const letter of word) {
      if (this.#text[this.#at] !== letter) this.#fail(`in literal ${word} (expecting ${goQuoteLetter(letter)})`)
      this.#at++
    }
  }
}
