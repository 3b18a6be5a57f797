/**
 * Received messages of generic netlink: struct genlmsghdr and the answer that names a family's
 * number. `MessageBatch` writes them. Attributes begin after the 4 bytes of struct genlmsghdr; no
 * family that is used here has another header after it. Written by hand: there is no netlink
 * library for Node.
 */
import { AttributeCursor } from './attributes.ts'
import {
  CTRL_ATTR_FAMILY_ID,
  CTRL_ATTR_FAMILY_NAME,
  CTRL_CMD_NEWFAMILY,
  GENL_HDRLEN,
  GENL_ID_CTRL,
} from './constants.ts'
import { netlinkError } from './errors.ts'
import type { ReceivedMessage } from './message.ts'

/** The command of a received generic netlink message. */
function genericCommand(message: ReceivedMessage): number {
  const command = message.end - message.start < GENL_HDRLEN ? undefined : message.bytes[message.start]
  if (command === undefined)
    throw netlinkError('netlink-malformed', `generic netlink message of ${message.end - message.start} bytes`)
  return command
}

/**
 * The attributes of a received generic netlink message; `command` must be its command, `operation`
 * names it in the error.
 */
export function genericAttributes(message: ReceivedMessage, command: number, operation: string): AttributeCursor {
  const actual = genericCommand(message)
  if (actual !== command)
    throw netlinkError('netlink-malformed', `${operation}: command ${actual} instead of ${command}`)
  return new AttributeCursor(message.bytes, message.start + GENL_HDRLEN, message.end, message.view)
}

/** Reads CTRL_ATTR_FAMILY_ID of the family `name`. */
export function decodeFamilyId(message: ReceivedMessage, name: string): number {
  if (message.type !== GENL_ID_CTRL)
    throw netlinkError('netlink-malformed', `CTRL_CMD_GETFAMILY ${name}: message type ${message.type}`)
  const attributes = genericAttributes(message, CTRL_CMD_NEWFAMILY, `CTRL_CMD_GETFAMILY ${name}`)
  let id: number | undefined
  let resolvedName: string | undefined
  while (attributes.next()) {
    if (attributes.type === CTRL_ATTR_FAMILY_ID) id = attributes.u16()
    else if (attributes.type === CTRL_ATTR_FAMILY_NAME) resolvedName = attributes.string()
  }
  if (id === undefined || resolvedName !== name)
    throw netlinkError(
      'netlink-malformed',
      `CTRL_CMD_GETFAMILY ${name}: family ${resolvedName ?? 'without a name'}, number ${id ?? 'missing'}`,
    )
  return id
}
