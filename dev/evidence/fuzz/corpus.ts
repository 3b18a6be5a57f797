/**
 * The corpus: for each target a file `corpus/NAME.txt` with an input a line, as base64, or behind
 * `text ` as a text of JSON. Inputs that once showed a defect are in `found/NAME.txt`, each behind a
 * comment that says which.
 */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Target } from './target.ts'

const TEXT = 'text '

/** The path of the file of a target. */
export function corpusFile({ name }: Pick<Target, 'name'>, folder: 'corpus' | 'found' = 'corpus'): string {
  return fileURLToPath(new URL(`${folder}/${name}.txt`, import.meta.url))
}

/** An input as a line. */
export function lineOf(input: Uint8Array): string {
  const text = Buffer.from(input).toString()
  const isText = Buffer.from(text).equals(input) && !text.includes('\0')
  return isText ? `${TEXT}${JSON.stringify(text)}` : Buffer.from(input).toString('base64')
}

/** The input of a line. */
export function inputOf(line: string): Uint8Array {
  if (!line.startsWith(TEXT)) return new Uint8Array(Buffer.from(line, 'base64'))
  return new Uint8Array(Buffer.from(String(JSON.parse(line.slice(TEXT.length)))))
}

function inputsIn(path: string): Uint8Array[] {
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : []
  return lines.filter((line) => line !== '' && !line.startsWith('#')).map(inputOf)
}

/** The inputs of a target: what it begins with, those in its file, and those that once showed a defect. */
export function corpusOf(target: Target): Uint8Array[] {
  const seeds = target.seeds?.() ?? []
  const made = seeds.map((seed) => (typeof seed === 'string' ? new Uint8Array(Buffer.from(seed)) : seed))
  return [...made, ...inputsIn(corpusFile(target)), ...inputsIn(corpusFile(target, 'found'))]
}
