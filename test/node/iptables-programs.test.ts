/** The programs of a choice, whose processes are replaced by a function. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { IptablesChoice } from '../../src/node/iptables-choice.ts'
import { HostIptables } from '../../src/node/iptables-programs.ts'
import type { ProgramCall, ProgramResult } from '../../src/node/programs.ts'
import { CodedError } from '../../src/values/errors.ts'

const signal = new AbortController().signal

const CHOICE: IptablesChoice = {
  mode: 'nft',
  reason: 'only the programs of nft are installed',
  unusable: {},
  suffix: '',
  programs: {
    IPv4: { save: '/sbin/iptables-save', restore: '/sbin/iptables-restore' },
    IPv6: { save: '/sbin/ip6tables-save', restore: '/sbin/ip6tables-restore' },
  },
  version: undefined,
  randomFully: true,
  waits: true,
}

test('HostIptables knows the processes of its own restores', async () => {
  const calls: ProgramCall[] = []
  const iptables = new HostIptables(CHOICE, async (call) => {
    calls.push(call)
    call.onStart?.(4711)
    assert.ok(iptables.isOwn(4711))
    return { exitCode: 0, output: 'later', errorText: '' }
  })
  assert.equal(iptables.isOwn(4711), false)
  const restore = await iptables.restore('IPv4', 'input', signal)
  assert.equal(restore.exitCode, 0)
  assert.ok(iptables.isOwn(4711), 'its announcements may still arrive')
  assert.deepEqual(calls[0]?.args, ['--noflush', '-w', '5'])
  assert.equal(calls[0]?.input, 'input')
})

test('HostIptables gives an iptables-restore of before 1.6.2 no option that it does not know', async () => {
  const calls: ProgramCall[] = []
  const iptables = new HostIptables({ ...CHOICE, waits: false }, async (call) => {
    calls.push(call)
    return { exitCode: 0, output: '', errorText: '' }
  })
  await iptables.restore('IPv4', 'input', signal)
  await iptables.save('IPv4', signal)
  assert.deepEqual(
    calls.map(({ args }) => args),
    [['--noflush'], []],
  )
})

test('HostIptables reports a failed save and an IP family without programs', async () => {
  const failing = new HostIptables(CHOICE, async () => ({ exitCode: 3, output: '', errorText: 'not permitted\n' }))
  await assert.rejects(failing.save('IPv4', signal), {
    code: 'iptables-save-failed',
    message: /ended with 3: not permitted$/,
  })
  const half = new HostIptables({ ...CHOICE, programs: {} })
  await assert.rejects(half.restore('IPv6', '', signal), { code: 'iptables-missing', message: /ip6tables-save/ })
})

test('HostIptables gives a program twice the time after one that was killed, up to ten minutes', async () => {
  const deadlines: (number | undefined)[] = []
  let hangs = true
  const iptables = new HostIptables(CHOICE, async ({ deadlineMs }: ProgramCall): Promise<ProgramResult> => {
    deadlines.push(deadlineMs)
    if (hangs) throw new CodedError('program-timeout', 'killed')
    return { exitCode: 0, output: '', errorText: '' }
  })
  for (let attempt = 0; attempt < 8; attempt++) await assert.rejects(iptables.restore('IPv4', '', signal))
  hangs = false
  await iptables.restore('IPv4', '', signal)
  assert.deepEqual(
    deadlines,
    [10, 20, 40, 80, 160, 320, 600, 600, 600].map((seconds) => seconds * 1000),
  )
})
