import assert from 'node:assert/strict'
import { test } from 'node:test'
import { callerOf, isModuleVerbose } from '../../src/serve/log-caller.ts'

test('callerOf returns folder, file and line of the call', () => {
  const called = (): string => callerOf(called)
  assert.match(called(), /^serve\/log-caller\.test\.ts:7$/)
})

test('isModuleVerbose matches patterns against names of files', () => {
  const rows: readonly (readonly [pattern: string, caller: string, level: number, expected: boolean])[] = [
    ['reflector', 'watch/reflector.ts:7', 4, true],
    ['reflector', 'watch/reflector.ts:7', 5, false],
    ['reflector', 'watch/reflectors.ts:7', 1, false],
    ['refl*', 'watch/reflector.ts:7', 4, true],
    ['re?lector', 'watch/reflector.ts:7', 4, true],
    ['watch/*', 'watch/reflector.ts:7', 4, true],
    ['watch/*', 'ipvs/table.ts:7', 0, false],
    ['*', 'ipvs/table.ts:7', 4, true],
    ['ta.le', 'ipvs/table.ts:7', 1, false],
    ['a[', 'ipvs/table.ts:7', 1, false],
  ]
  for (const [filePattern, caller, level, expected] of rows)
    assert.equal(isModuleVerbose([{ filePattern, verbosity: 4 }], caller, level), expected, `${filePattern} ${caller}`)
  const both = [
    { filePattern: 'table', verbosity: 1 },
    { filePattern: '*', verbosity: 9 },
  ]
  assert.equal(isModuleVerbose(both, 'ipvs/table.ts:7', 5), false, 'the first matching pattern decides')
})
