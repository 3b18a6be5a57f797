/**
 * Numbers of the kernel's netlink headers, under the kernel's names: linux/netlink.h,
 * linux/genetlink.h, and the part of linux/rtnetlink.h that this program uses.
 */

// linux/netlink.h
export const NETLINK_ROUTE = 0
export const NETLINK_NETFILTER = 12
export const NETLINK_GENERIC = 16

export const NLMSG_HDRLEN = 16
export const NLMSG_NOOP = 1
export const NLMSG_ERROR = 2
export const NLMSG_DONE = 3
export const NLMSG_OVERRUN = 4

export const NLM_F_REQUEST = 0x1
export const NLM_F_ACK = 0x4
export const NLM_F_DUMP_INTR = 0x10
export const NLM_F_REPLACE = 0x100
export const NLM_F_EXCL = 0x200
export const NLM_F_CREATE = 0x400
export const NLM_F_DUMP = 0x300
/** Flags of an NLMSG_ERROR: the request is echoed without its payload; extended-ACK attributes follow. */
export const NLM_F_CAPPED = 0x100
export const NLM_F_ACK_TLVS = 0x200

export const NLMSGERR_ATTR_MSG = 1
export const NLMSGERR_ATTR_OFFS = 2
export const NLMSGERR_ATTR_MISS_TYPE = 5

export const NLA_HDRLEN = 4
export const NLA_F_NESTED = 0x8000
export const NLA_F_NET_BYTEORDER = 0x4000
export const NLA_TYPE_MASK = 0x3fff

// linux/genetlink.h
export const GENL_HDRLEN = 4
export const GENL_ID_CTRL = 0x10
export const CTRL_CMD_NEWFAMILY = 1
export const CTRL_CMD_DELFAMILY = 2
export const CTRL_CMD_GETFAMILY = 3
export const CTRL_ATTR_FAMILY_ID = 1
export const CTRL_ATTR_FAMILY_NAME = 2
/** The multicast group `notify` of the controller has the controller's number (net/netlink/genetlink.c). */
export const GENLGRP_CTRL = GENL_ID_CTRL

// linux/rtnetlink.h: message types
export const RTM_NEWLINK = 16
export const RTM_DELLINK = 17
export const RTM_GETLINK = 18
export const RTM_NEWADDR = 20
export const RTM_DELADDR = 21
export const RTM_GETADDR = 22
export const RTM_NEWROUTE = 24
export const RTM_DELROUTE = 25
export const RTM_GETROUTE = 26
export const RTM_NEWNEIGH = 28
export const RTM_GETNEIGH = 30

// linux/rtnetlink.h: multicast groups
export const RTNLGRP_LINK = 1
export const RTNLGRP_IPV4_IFADDR = 5
export const RTNLGRP_IPV4_ROUTE = 7
export const RTNLGRP_IPV6_IFADDR = 9
export const RTNLGRP_IPV6_ROUTE = 11
