/** Single divisions of the room of a node. `test/sync/node-room.test.ts` has the laws of many in a row. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { divideRoom, type Member, type NamespaceUse, type RoomState } from '../../src/sync/room-division.ts'

const LIMIT = 3200

/** A Service that has so much and wants so much, in frontends that cost 10. */
function member(owner: string, used: number, wants = used): Member {
  const shortage = wants > used ? { frontends: (wants - used) / 10, wants, next: used + 10 } : undefined
  return { owner, used, shortage, isNeeded: false }
}

/** Services by namespace, the oldest first. */
function stateOf(
  namespaces: Readonly<Record<string, readonly Member[]>>,
  { wasShort = true, undecided = new Set<string>() }: Partial<RoomState> = {},
): RoomState {
  const all = new Map<string, NamespaceUse>()
  let total = 0
  for (const [name, members] of Object.entries(namespaces)) {
    const used = members.reduce((sum, one) => sum + one.used, 0)
    const wants = members.reduce((sum, one) => sum + (one.shortage?.wants ?? one.used), 0)
    all.set(name, { used, wants, short: members.filter(({ shortage }) => shortage !== undefined) })
    total += used
  }
  return { limit: LIMIT, total, wasShort, undecided, namespaces: all, membersOf: (name) => namespaces[name] ?? [] }
}

describe('divideRoom', () => {
  it('gives what is free first to the namespaces that have least', () => {
    const { caps, changed } = divideRoom(
      stateOf({ x: [member('x/s', 2000, 9000)], y: [member('y/s', 1100, 1160)], a: [member('a/s', 40, 100)] }),
    )
    // The large one gives up something for the second.
    assert.deepEqual(changed, ['a/s', 'x/s'])
    assert.deepEqual([caps.get('a/s'), caps.get('y/s'), caps.get('x/s')], [100, 1100, 1840])
  })

  it('takes nothing from anybody while all that may grow fits', () => {
    const { caps, changed } = divideRoom(
      stateOf({ x: [member('x/s', 2600, 9000)], y: [member('y/s', 400, 800)], a: [member('a/s', 0, 100)] }),
    )
    assert.deepEqual(changed, ['a/s', 'y/s'])
    assert.deepEqual([caps.get('a/s'), caps.get('y/s'), caps.get('x/s')], [100, 500, 2600])
  })

  it('takes from a namespace with more than its share when somebody has less and nothing is free', () => {
    const { caps, changed, share } = divideRoom(
      stateOf({ x: [member('x/s', 3190, 9000)], y: [member('y/s', 10, 9000)] }),
    )
    assert.deepEqual(share, { toKeep: 1600, toGrow: 1550 })
    assert.deepEqual(changed, ['x/s'])
    assert.deepEqual([caps.get('x/s'), caps.get('y/s')], [1550, 10])
  })

  it('leaves a namespace what it has between the two shares', () => {
    const { caps, changed, share } = divideRoom(
      stateOf({ x: [member('x/s', 1600, 9000)], y: [member('y/s', 1560, 9000)], a: [member('a/s', 40, 60)] }),
    )
    assert.deepEqual(share, { toKeep: 1570, toGrow: 1520 })
    assert.deepEqual(changed, ['x/s'])
    assert.deepEqual([caps.get('x/s'), caps.get('y/s'), caps.get('a/s')], [1520, 1560, 40])
  })

  it('takes from the youngest what an older one of the same namespace lacks', () => {
    const { caps, changed } = divideRoom(
      stateOf({ x: [member('x/1', 1000, 2000), member('x/2', 1500), member('x/3', 700)] }),
    )
    assert.deepEqual(changed, ['x/2', 'x/3'])
    assert.deepEqual([caps.get('x/1'), caps.get('x/2'), caps.get('x/3')], [1000, 1100, 0])
  })

  it('lets an undecided Service wait until others have given up what it gets, and gives it a part when nobody has to', () => {
    const undecided = new Set(['x/1'])
    const members = [member('x/1', 1000, 1500), member('x/2', 2100)]
    const { caps, changed, waiting } = divideRoom(stateOf({ x: members }, { undecided }))
    assert.deepEqual(
      [changed, Array.from(waiting), caps.get('x/1'), caps.get('x/2')],
      [['x/2'], ['x/1'], undefined, 1600],
    )
    const alone = divideRoom(stateOf({ x: [member('x/1', 1000, 9000)] }, { undecided }))
    assert.deepEqual([alone.changed, alone.waiting.size, alone.caps.get('x/1')], [['x/1'], 0, 3100])
  })

  it('takes nothing from a Service that is needed, whatever its namespace has', () => {
    const needed = { ...member('x/dns', 2000), isNeeded: true }
    const { changed } = divideRoom(stateOf({ x: [needed, member('x/s', 100)], y: [member('y/s', 1100, 9000)] }))
    assert.deepEqual(changed, ['x/s'])
  })

  it('lets all grow again when all fit with some room to spare', () => {
    const full = { x: [member('x/s', 2000, 3150)] }
    assert.deepEqual(divideRoom(stateOf(full)).changed, ['x/s'])
    assert.deepEqual(divideRoom(stateOf(full)).caps.get('x/s'), 3100)
    assert.deepEqual(divideRoom(stateOf(full, { wasShort: false })).caps.get('x/s'), 3150)
    assert.equal(divideRoom(stateOf({ x: [member('x/s', 2000, 3090)] })).share.toGrow, Number.POSITIVE_INFINITY)
  })
})
