/**
 * Numbers of linux/netfilter/nfnetlink_conntrack.h and linux/netfilter/nfnetlink.h, and the flags of a tuple filter.
 * What could break: these are wire values. CTA_FILTER_F_* stand in no header of user space: they are those of
 * net/netfilter/nf_internals.h, an interface since Linux 5.8.
 */

/** enum cntl_msg_types */
export const IPCTNL_MSG_CT_NEW = 0
export const IPCTNL_MSG_CT_GET = 1
export const IPCTNL_MSG_CT_DELETE = 2
export const IPCTNL_MSG_CT_GET_STATS = 5

/** enum ctattr_type */
export const CTA_TUPLE_ORIG = 1
export const CTA_TUPLE_REPLY = 2
export const CTA_ID = 12
export const CTA_ZONE = 18
export const CTA_FILTER = 25

/** enum ctattr_tuple */
export const CTA_TUPLE_IP = 1
export const CTA_TUPLE_PROTO = 2
export const CTA_TUPLE_ZONE = 3

/** enum ctattr_ip */
export const CTA_IP_V4_SRC = 1
export const CTA_IP_V4_DST = 2
export const CTA_IP_V6_SRC = 3
export const CTA_IP_V6_DST = 4

/** enum ctattr_l4proto */
export const CTA_PROTO_NUM = 1
export const CTA_PROTO_SRC_PORT = 2
export const CTA_PROTO_DST_PORT = 3

/** enum ctattr_filter */
export const CTA_FILTER_ORIG_FLAGS = 1

/** Which parts of a tuple a filter compares. */
export const CTA_FILTER_F_CTA_IP_DST = 1 << 1
export const CTA_FILTER_F_CTA_PROTO_NUM = 1 << 3
export const CTA_FILTER_F_CTA_PROTO_DST_PORT = 1 << 5

/** enum ctattr_stats_global */
export const CTA_STATS_GLOBAL_ENTRIES = 1
export const CTA_STATS_GLOBAL_MAX_ENTRIES = 2
