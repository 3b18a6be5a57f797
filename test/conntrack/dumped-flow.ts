/** The bytes of a flow in a dump: the tuples of a deletion with the message number of a dump. */
import { encodeDeleteFlow } from '../../src/conntrack/codec.ts'
import type { Flow } from '../../src/conntrack/types.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import { message } from '../netlink/wire.ts'

/** struct nlmsghdr and struct nfgenmsg. */
const BEFORE_ATTRIBUTES = 20
const NLM_F_MULTI = 2
const CTA_TUPLE_REPLY = 2

function deletion(flow: Flow): Buffer {
  const batch = new MessageBatch()
  encodeDeleteFlow(batch, flow)
  return Buffer.from(batch.bytes)
}

/** One message of a dump: the flow as IPCTNL_MSG_CT_NEW. */
export function dumpedFlow(flow: Flow, sequence = 1, flags = NLM_F_MULTI): Uint8Array {
  const reply = deletion({ ...flow, original: flow.reply }).subarray(BEFORE_ATTRIBUTES)
  reply[2] = CTA_TUPLE_REPLY
  const parts = [deletion(flow).subarray(16), reply.subarray(0, reply.readUInt16LE(0))]
  return message(0x100, flags, sequence, new Uint8Array(Buffer.concat(parts)))
}
