import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it, mock } from 'node:test'
import { keepListening } from '../../src/modes/announcements.ts'
import type { LossListener } from '../../src/netlink/announcements.ts'
import { CodedError } from '../../src/values/errors.ts'

class Sockets {
  readonly losses: LossListener[] = []
  readonly errors: unknown[] = []
  opened = 0
  closed = 0
  lost = 0
  broken = false

  listen(): { close(): void } {
    return keepListening({
      open: (losses) => {
        if (this.broken) throw new Error('EMFILE')
        this.opened++
        this.losses.push(losses)
        return { close: () => void this.closed++ }
      },
      onLost: () => void this.lost++,
      onError: (error) => this.errors.push(error),
    })
  }
}

describe('keepListening', () => {
  beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }))
  afterEach(() => mock.timers.reset())

  it('opens a failed socket again, and then reports lost announcements', () => {
    const sockets = new Sockets()
    sockets.listen()
    assert.deepEqual([sockets.opened, sockets.lost], [1, 0])
    sockets.losses[0]?.onFailure('broken')
    assert.deepEqual([sockets.opened, sockets.lost, sockets.errors], [1, 1, ['broken']])
    mock.timers.tick(1000)
    assert.deepEqual([sockets.opened, sockets.lost], [2, 2])
  })

  it('retries until a socket can be opened, also the first one', () => {
    const late = new Sockets()
    late.broken = true
    const listening = late.listen()
    mock.timers.tick(1000)
    assert.deepEqual([late.opened, late.lost, late.errors.length], [0, 0, 2])
    late.broken = false
    mock.timers.tick(1000)
    assert.deepEqual([late.opened, late.lost], [1, 1])
    listening.close()
    assert.equal(late.closed, 1)
    const never = new Sockets()
    never.broken = true
    never.listen().close()
    mock.timers.tick(5000)
    assert.equal(never.errors.length, 1)

    const sockets = new Sockets()
    sockets.listen()
    sockets.broken = true
    sockets.losses[0]?.onFailure('broken')
    for (let second = 0; second < 3; second++) mock.timers.tick(1000)
    assert.deepEqual([sockets.opened, sockets.lost, sockets.errors.length], [1, 1, 4])
    sockets.broken = false
    mock.timers.tick(1000)
    assert.deepEqual([sockets.opened, sockets.lost], [2, 2])
    sockets.losses[1]?.onFailure('again')
    mock.timers.tick(1000)
    assert.equal(sockets.opened, 3)
  })

  it('keeps a socket whose announcements were lost', () => {
    const sockets = new Sockets()
    sockets.listen()
    sockets.losses[0]?.onOverrun(new CodedError('netlink-overrun', 'full'))
    mock.timers.tick(5000)
    assert.deepEqual([sockets.opened, sockets.lost, String(sockets.errors[0])], [1, 1, 'CodedError: full'])
  })

  it('opens no socket after it was closed', () => {
    const sockets = new Sockets()
    const listening = sockets.listen()
    sockets.losses[0]?.onFailure('broken')
    listening.close()
    mock.timers.tick(5000)
    assert.deepEqual([sockets.opened, sockets.closed], [1, 1])
  })
})
