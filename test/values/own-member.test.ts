/** A table by name has the names that were given to it, and no others. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ownMember } from '../../src/values/own-member.ts'

test('ownMember knows no names that every object has', () => {
  const table: Readonly<Record<string, number>> = { a: 1, toString: 2 }
  const names = ['a', 'toString', 'b', 'constructor', '__proto__', 'hasOwnProperty', '']
  assert.deepEqual(
    names.map((name) => ownMember(table, name)),
    [1, 2, undefined, undefined, undefined, undefined, undefined],
  )
})
