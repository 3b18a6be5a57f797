/**
 * Announcements of the controller of generic netlink (group `notify`): a family was removed,
 * because its module was unloaded. They reach every network namespace in which the family is.
 * @impure
 */
import { AnnouncementReader, type LossListener } from './announcements.ts'
import { AttributeCursor } from './attributes.ts'
import { CTRL_ATTR_FAMILY_NAME, CTRL_CMD_DELFAMILY, GENL_HDRLEN, GENL_ID_CTRL } from './constants.ts'
import type { ReceivedMessage } from './message.ts'
import type { Transport } from './transport.ts'

/**
 * @param transport a socket of NETLINK_GENERIC that has joined GENLGRP_CTRL and is used for nothing else
 * @param onRemoved called with the name of the family
 */
export function familyEvents(
  transport: Transport,
  onRemoved: (family: string) => void,
  losses: LossListener,
): AnnouncementReader {
  return new AnnouncementReader(transport, {
    onMessage(message) {
      const family = removedFamily(message)
      if (family !== undefined) onRemoved(family)
    },
    ...losses,
  })
}

/** The name in CTRL_CMD_DELFAMILY; undefined for every other announcement. */
function removedFamily({ type, bytes, view, start, end }: ReceivedMessage): string | undefined {
  if (type !== GENL_ID_CTRL || end - start < GENL_HDRLEN || bytes[start] !== CTRL_CMD_DELFAMILY) return undefined
  const attributes = new AttributeCursor(bytes, start + GENL_HDRLEN, end, view)
  while (attributes.next()) if (attributes.type === CTRL_ATTR_FAMILY_NAME) return attributes.string()
  return undefined
}
