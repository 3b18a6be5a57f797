import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkFile } from './check.ts'
import { MAX_LINES } from './rules.ts'
import { readSources } from './sources.ts'

test('every source file keeps the rules of a file', () => {
  assert.deepEqual(
    [...readSources()].flatMap(([path, text]) => checkFile(path, text)),
    [],
  )
})

const COMMENT = '/**\n * What it is for.\n * Its limits.\n */\n'

test('checkFile finds each kind of violation', () => {
  const rows: readonly (readonly [text: string, violations: number])[] = [
    [`${COMMENT}export const a: unknown = 'any'\n`, 0],
    [`${COMMENT}// takes any, as any caller may: any\nexport const many = company\n`, 0],
    ['export const a = 1\n', 1],
    ['// A comment of another kind.\nexport const a = 1\n', 1],
    ['/** What a small file is for. */\nexport const a = 1\n', 0],
    [COMMENT + 'x\n'.repeat(MAX_LINES - 4), 0],
    [COMMENT + 'x\n'.repeat(MAX_LINES - 3), 1],
    [`${COMMENT}const a: any = 1\n`, 1],
    [`${COMMENT}const a = b as any\n`, 1],
    [`${COMMENT}const a = new Map<any, 1>()\n`, 1],
    [`${COMMENT}function f(a: any[]): void {}\n`, 1],
    [`${COMMENT}// @ts-ignore\n`, 1],
    [`${COMMENT}/* @ts-expect-error */\n`, 1],
    [`${COMMENT}export const enum A { B }\n`, 1],
    [`${COMMENT}const A: Readonly<Record<string, number>> = {}\nf(A[name])\n`, 1],
    [`${COMMENT}const A: Readonly<Record<string, number>> = {}\nf(A[letter], ownMember(A, name))\n`, 0],
    [`${COMMENT}const A: Readonly<Record<Kind, number>> = {}\nf(A[kind])\n`, 0],
  ]
  for (const [text, violations] of rows) assert.equal(checkFile('src/a.ts', text).length, violations, text)
})
