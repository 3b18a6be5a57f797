import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { KernelError } from '../../src/netlink/errors.ts'
import { decodeDone, decodeError, visitMessages } from '../../src/netlink/message.ts'
import { CodedError } from '../../src/values/errors.ts'
import { hex, join, message, onlyMessage } from './wire.ts'

/** As Linux 7.2 answered IPVS_CMD_GET_SERVICE of a service that does not exist. */
const ESRCH = '24000000 02000001 05000000 49000000 fdffffff 44000000 17000100 05000000 00000000'
/** RTM_NEWADDR with a wrong prefix length: EINVAL with text (0x300: capped, with attributes). */
const EINVAL = `44000000 02000003 07000000 49000000 eaffffff 28000000 14000506 07000000 00000000
  20000100 697076343a20496e76616c696420707265666978206c656e677468 00`
/**
 * The same error from a socket without NETLINK_CAP_ACK: the whole request is echoed; offset and
 * missing type follow.
 */
const UNCAPPED = `3c000000 02000002 07000000 49000000 eaffffff 18000000 14000506 07000000 00000000 aabbccdd 11223344
  08000200 1c000000 08000500 02000000`

describe('visitMessages', () => {
  it('reads every header field', () => {
    const found: unknown[] = []
    visitMessages(
      join(message(0x17, 2, 5, hex('01')), message(3, 2, 6)),
      ({ type, flags, sequence, portId, start, end }) => {
        found.push({ type, flags, sequence, portId, start, end })
      },
    )
    assert.deepEqual(found, [
      { type: 0x17, flags: 2, sequence: 5, portId: 0x49, start: 16, end: 17 },
      { type: 3, flags: 2, sequence: 6, portId: 0x49, start: 36, end: 36 },
    ])
  })

  it('stops when the callback returns false', () => {
    let count = 0
    visitMessages(join(message(1, 0, 1), message(1, 0, 2)), () => ++count < 1)
    assert.equal(count, 1)
  })

  it('refuses a datagram cut at any byte', () => {
    const whole = join(message(0x17, 2, 5, hex('01020304')), message(3, 2, 6, hex('00000000')))
    for (let length = 1; length < whole.length; length++) {
      if (length === 20) continue // between the messages: a complete datagram of one message
      assert.throws(
        () => visitMessages(whole.subarray(0, length), () => undefined),
        { code: 'netlink-malformed' },
        `cut to ${length}`,
      )
    }
  })

  it('ends or throws for any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        let count = 0
        try {
          visitMessages(bytes, () => ++count < 1000)
        } catch (error) {
          assert.ok(error instanceof CodedError && error.code === 'netlink-malformed', String(error))
        }
        assert.ok(count <= bytes.length / 16 + 1)
      }),
      { numRuns: 1000 },
    )
  })
})

describe('decodeError', () => {
  it('reads errno without an extended ACK', () => {
    assert.deepEqual(decodeError(onlyMessage(hex(ESRCH))), { errno: 3, extendedAck: {} })
  })

  it('reads the text of a capped error', () => {
    assert.deepEqual(decodeError(onlyMessage(hex(EINVAL))), {
      errno: 22,
      extendedAck: { text: 'ipv4: Invalid prefix length' },
    })
  })

  it('reads offset and missing type behind an echoed request', () => {
    assert.deepEqual(decodeError(onlyMessage(hex(UNCAPPED))), {
      errno: 22,
      extendedAck: { offset: 28, missingType: 2 },
    })
  })

  it('reads an ACK as errno 0', () => {
    assert.equal(decodeError(onlyMessage(hex(ESRCH.replace('fdffffff', '00000000')))).errno, 0)
  })

  it('refuses a positive error', () => {
    assert.throws(() => decodeError(onlyMessage(hex(ESRCH.replace('fdffffff', '01000000')))), {
      code: 'netlink-malformed',
    })
  })

  it('never reads another errno from a payload cut at any byte', () => {
    for (const text of [ESRCH, EINVAL, UNCAPPED]) {
      const whole = hex(text)
      const expected = decodeError(onlyMessage(whole)).errno
      for (let length = 16; length < whole.length; length++) {
        const cut = whole.slice(0, length)
        new DataView(cut.buffer).setUint32(0, length, true)
        try {
          assert.equal(decodeError(onlyMessage(cut)).errno, expected)
          assert.ok(length >= 36)
        } catch (error) {
          assert.ok(error instanceof CodedError && error.code === 'netlink-malformed', String(error))
        }
      }
    }
  })
})

describe('decodeDone', () => {
  it('reads success, error and a missing result', () => {
    assert.equal(decodeDone(onlyMessage(message(3, 2, 1, hex('00000000')))).errno, 0)
    assert.equal(decodeDone(onlyMessage(message(3, 2, 1, hex('fcffffff')))).errno, 4)
    assert.equal(decodeDone(onlyMessage(message(3, 2, 1, hex('07000000')))).errno, 0)
    assert.equal(decodeDone(onlyMessage(message(3, 2, 1))).errno, 0)
    assert.throws(() => decodeDone(onlyMessage(message(3, 2, 1, hex('fcff')))), { code: 'netlink-malformed' })
  })

  it('reads the text behind the result', () => {
    assert.deepEqual(decodeDone(onlyMessage(message(3, 0x202, 1, hex('eaffffff 0700 0100 6e6f00 00')))), {
      errno: 22,
      extendedAck: { text: 'no' },
    })
  })
})

describe('KernelError', () => {
  const rows: readonly (readonly [number, string])[] = [
    [1, 'EPERM'],
    [2, 'ENOENT'],
    [3, 'ESRCH'],
    [11, 'EAGAIN'],
    [16, 'EBUSY'],
    [17, 'EEXIST'],
    [95, 'EOPNOTSUPP'],
    [105, 'ENOBUFS'],
    [524, 'ENOTSUPP'],
    [4103, 'errno-4103'],
  ]
  for (const [errno, code] of rows)
    it(`code of ${errno} is ${code}`, () => {
      const error = new KernelError(errno, 'IPVS_CMD_NEW_DEST')
      assert.deepEqual(
        [error.code, error.errno, error.message, error.name],
        [code, errno, `IPVS_CMD_NEW_DEST: ${code}`, 'KernelError'],
      )
    })
})
