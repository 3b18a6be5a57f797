/** Requests without a payload and replies of one byte, for tests of what a connection does with any message. */
import { MessageBatch } from '../../src/netlink/batch.ts'
import { KernelError } from '../../src/netlink/errors.ts'
import { hex, message } from './wire.ts'

export function batchOf(count: number): MessageBatch {
  const batch = new MessageBatch()
  for (let index = 0; index < count; index++) batch.begin(0x17, 0, `REQUEST_${index}`).end()
  return batch
}

export const row = (sequence: number, value: number, flags = 2): Uint8Array =>
  message(0x17, flags, sequence, hex(value.toString(16).padStart(2, '0')))

export const readByte = ({ bytes, start }: { bytes: Uint8Array; start: number }): number | undefined => bytes[start]

/** ENOBUFS: the kernel has lost replies. */
export const overrun = (): Error => new KernelError(105, 'recvfrom')
