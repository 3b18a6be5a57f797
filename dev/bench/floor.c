/*
 * The floor of a cold start: how long the kernel alone takes to write the tables of N Services with M endpoints each.
 *
 *   floor N M [addresses|routes]
 *
 * The program adds N virtual servers with M real servers each, N addresses on kube-ipvs0 (or local routes) and N entries in one
 * set of type hash:ip,port, and prints how many milliseconds each part took and their sum. Creating the device and the set is not
 * counted. It puts 200 messages into one datagram and asks only for the acknowledgement of the last one;
 * the kernel reports an error of any of them, and the first error ends the program. A message to ipset holds 500 entries
 * and is a separate datagram. kube-ipvs sends such messages too, after it has decided on them.
 *
 * It runs as root in a network namespace whose lo is up and that has no virtual servers, and removes nothing afterwards.
 * dev/bench/floor.ts builds it: gcc -O2 -o floor floor.c
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/ip_vs.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DEVICE "kube-ipvs0"
#define SET "KUBE-FLOOR"
#define MOST_MESSAGES 200
#define ENTRIES_A_MESSAGE 500

static const uint16_t FAMILY = AF_INET;
static const uint16_t TCP = IPPROTO_TCP;
static const uint32_t ZERO = 0;
static const uint32_t ONE = 1;

/* The datagram that is being written, and the message in it that is. */
static char buffer[1 << 20];
static size_t length;
static size_t message_start;
static int messages;
static uint32_t sequence;
static int netlink;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static void open_netlink(int protocol) {
  struct sockaddr_nl address = {.nl_family = AF_NETLINK};
  int bytes = 8 << 20;
  netlink = socket(AF_NETLINK, SOCK_RAW, protocol);
  if (netlink < 0 || bind(netlink, (struct sockaddr *)&address, sizeof address) < 0) fail("netlink socket");
  setsockopt(netlink, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
  setsockopt(netlink, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
}

/* Appends bytes and pads them to a multiple of 4. */
static void *put(const void *bytes, size_t size) {
  void *place = buffer + length;
  if (size > 0) memcpy(place, bytes, size);
  length += NLMSG_ALIGN(size);
  return place;
}

static struct nlattr *attribute(uint16_t type, const void *value, size_t size) {
  struct nlattr header = {.nla_len = NLA_HDRLEN + size, .nla_type = type};
  struct nlattr *place = put(&header, sizeof header);
  put(value, size);
  return place;
}

static struct nlattr *begin_nested(uint16_t type) { return attribute(type | NLA_F_NESTED, NULL, 0); }

static void end_nested(struct nlattr *nested) { nested->nla_len = buffer + length - (char *)nested; }

/* Sends the datagram and waits for the acknowledgement of its last message. */
static void send_batch(void) {
  static char answers[1 << 16];
  if (messages == 0) return;
  ((struct nlmsghdr *)(buffer + message_start))->nlmsg_flags |= NLM_F_ACK;
  if (send(netlink, buffer, length, 0) < 0) fail("send");
  for (;;) {
    int left = recv(netlink, answers, sizeof answers, 0);
    if (left < 0) fail("recv");
    for (struct nlmsghdr *answer = (void *)answers; NLMSG_OK(answer, left); answer = NLMSG_NEXT(answer, left)) {
      if (answer->nlmsg_type != NLMSG_ERROR) continue;
      errno = -((struct nlmsgerr *)NLMSG_DATA(answer))->error;
      if (errno != 0) fail("the kernel refused a message");
      if (answer->nlmsg_seq != sequence) continue;
      length = 0;
      messages = 0;
      return;
    }
  }
}

static void begin_message(uint16_t type, uint16_t flags) {
  struct nlmsghdr header = {.nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | flags, .nlmsg_seq = ++sequence};
  message_start = length;
  put(&header, sizeof header);
}

static void end_message(void) {
  ((struct nlmsghdr *)(buffer + message_start))->nlmsg_len = length - message_start;
  if (++messages >= MOST_MESSAGES) send_batch();
}

static void begin_generic(uint16_t family, uint8_t command) {
  struct genlmsghdr header = {.cmd = command, .version = 1};
  begin_message(family, 0);
  put(&header, sizeof header);
}

/* The number that generic netlink gave to IPVS on this kernel. */
static uint16_t ipvs_family(void) {
  char answer[8192];
  begin_generic(GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
  attribute(CTRL_ATTR_FAMILY_NAME, IPVS_GENL_NAME, sizeof IPVS_GENL_NAME);
  ((struct nlmsghdr *)(buffer + message_start))->nlmsg_len = length - message_start;
  if (send(netlink, buffer, length, 0) < 0) fail("send");
  length = 0;
  int size = recv(netlink, answer, sizeof answer, 0);
  if (size < 0) fail("recv");
  const struct nlmsghdr *header = (void *)answer;
  const char *end = answer + size;
  const char *at = answer + NLMSG_HDRLEN + GENL_HDRLEN;
  while (header->nlmsg_type == GENL_ID_CTRL && at + NLA_HDRLEN <= end) {
    const struct nlattr *one = (const void *)at;
    if (one->nla_type == CTRL_ATTR_FAMILY_ID) return *(const uint16_t *)(at + NLA_HDRLEN);
    at += NLA_ALIGN(one->nla_len);
  }
  fprintf(stderr, "this kernel has no IPVS\n");
  exit(1);
}

/* 10.96.0.10 and the addresses after it. */
static uint32_t service_address(int service) { return htonl(0x0a600000u + 10 + service); }

/* 10.200.0.1 and the addresses after it. */
static uint32_t endpoint_address(int number) { return htonl(0x0ac80000u + 1 + number); }

/* IPVS takes addresses in 16 bytes, whatever their family. */
static void ipvs_address(uint16_t type, uint32_t address) {
  char bytes[16] = {0};
  memcpy(bytes, &address, sizeof address);
  attribute(type, bytes, sizeof bytes);
}

static struct nlattr *begin_virtual_server(uint32_t address) {
  const uint16_t port = htons(80);
  struct nlattr *service = begin_nested(IPVS_CMD_ATTR_SERVICE);
  attribute(IPVS_SVC_ATTR_AF, &FAMILY, sizeof FAMILY);
  attribute(IPVS_SVC_ATTR_PROTOCOL, &TCP, sizeof TCP);
  ipvs_address(IPVS_SVC_ATTR_ADDR, address);
  attribute(IPVS_SVC_ATTR_PORT, &port, sizeof port);
  return service;
}

static void add_virtual_server(uint16_t family, uint32_t address) {
  const struct ip_vs_flags flags = {.flags = 0, .mask = ~0u};
  const uint32_t netmask = ~0u;
  begin_generic(family, IPVS_CMD_NEW_SERVICE);
  struct nlattr *service = begin_virtual_server(address);
  attribute(IPVS_SVC_ATTR_SCHED_NAME, "rr", sizeof "rr");
  attribute(IPVS_SVC_ATTR_FLAGS, &flags, sizeof flags);
  attribute(IPVS_SVC_ATTR_TIMEOUT, &ZERO, sizeof ZERO);
  attribute(IPVS_SVC_ATTR_NETMASK, &netmask, sizeof netmask);
  end_nested(service);
  end_message();
}

static void add_real_server(uint16_t family, uint32_t address, uint32_t endpoint) {
  const uint16_t port = htons(8080);
  begin_generic(family, IPVS_CMD_NEW_DEST);
  end_nested(begin_virtual_server(address));
  struct nlattr *destination = begin_nested(IPVS_CMD_ATTR_DEST);
  ipvs_address(IPVS_DEST_ATTR_ADDR, endpoint);
  attribute(IPVS_DEST_ATTR_PORT, &port, sizeof port);
  attribute(IPVS_DEST_ATTR_ADDR_FAMILY, &FAMILY, sizeof FAMILY);
  attribute(IPVS_DEST_ATTR_FWD_METHOD, &ZERO, sizeof ZERO);
  attribute(IPVS_DEST_ATTR_WEIGHT, &ONE, sizeof ONE);
  attribute(IPVS_DEST_ATTR_U_THRESH, &ZERO, sizeof ZERO);
  attribute(IPVS_DEST_ATTR_L_THRESH, &ZERO, sizeof ZERO);
  end_nested(destination);
  end_message();
}

static double write_virtual_servers(int services, int endpoints) {
  open_netlink(NETLINK_GENERIC);
  const uint16_t family = ipvs_family();
  const double start_ms = now_ms();
  for (int service = 0; service < services; service++) {
    const uint32_t address = service_address(service);
    add_virtual_server(family, address);
    for (int number = 0; number < endpoints; number++)
      add_real_server(family, address, endpoint_address(service * endpoints + number));
  }
  send_batch();
  const double took_ms = now_ms() - start_ms;
  close(netlink);
  return took_ms;
}

static double write_addresses(int services) {
  if (if_nametoindex(DEVICE) == 0 && system("ip link add " DEVICE " type dummy") != 0) exit(1);
  const struct ifaddrmsg header = {.ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = if_nametoindex(DEVICE)};
  open_netlink(NETLINK_ROUTE);
  const double start_ms = now_ms();
  for (int service = 0; service < services; service++) {
    const uint32_t address = service_address(service);
    begin_message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
    put(&header, sizeof header);
    attribute(IFA_LOCAL, &address, sizeof address);
    attribute(IFA_ADDRESS, &address, sizeof address);
    end_message();
  }
  send_batch();
  const double took_ms = now_ms() - start_ms;
  close(netlink);
  return took_ms;
}

static double write_routes(int services) {
  const struct rtmsg header = {.rtm_family = AF_INET, .rtm_dst_len = 32, .rtm_table = RT_TABLE_LOCAL,
                               .rtm_protocol = 73, .rtm_scope = RT_SCOPE_HOST, .rtm_type = RTN_LOCAL};
  const int device = if_nametoindex("lo");
  open_netlink(NETLINK_ROUTE);
  const double start_ms = now_ms();
  for (int service = 0; service < services; service++) {
    const uint32_t address = service_address(service);
    begin_message(RTM_NEWROUTE, NLM_F_CREATE);
    put(&header, sizeof header);
    attribute(RTA_DST, &address, sizeof address);
    attribute(RTA_OIF, &device, sizeof device);
    end_message();
  }
  send_batch();
  const double took_ms = now_ms() - start_ms;
  close(netlink);
  return took_ms;
}

static void put_entry(uint32_t address) {
  const uint16_t port = htons(80);
  const uint8_t protocol = IPPROTO_TCP;
  struct nlattr *entry = begin_nested(IPSET_ATTR_DATA);
  struct nlattr *ip = begin_nested(IPSET_ATTR_IP);
  attribute(IPSET_ATTR_IPADDR_IPV4 | NLA_F_NET_BYTEORDER, &address, sizeof address);
  end_nested(ip);
  attribute(IPSET_ATTR_PORT | NLA_F_NET_BYTEORDER, &port, sizeof port);
  attribute(IPSET_ATTR_PROTO, &protocol, sizeof protocol);
  attribute(IPSET_ATTR_LINENO | NLA_F_NET_BYTEORDER, &ZERO, sizeof ZERO);
  end_nested(entry);
}

static double write_entries(int services) {
  const struct nfgenmsg header = {.nfgen_family = AF_INET, .version = NFNETLINK_V0};
  const uint8_t version = IPSET_PROTOCOL;
  if (system("ipset create " SET " hash:ip,port family inet hashsize 1024 maxelem 262144 -exist") != 0) exit(1);
  open_netlink(NETLINK_NETFILTER);
  const double start_ms = now_ms();
  for (int first = 0; first < services; first += ENTRIES_A_MESSAGE) {
    begin_message(NFNL_SUBSYS_IPSET << 8 | IPSET_CMD_ADD, 0);
    put(&header, sizeof header);
    attribute(IPSET_ATTR_PROTOCOL, &version, sizeof version);
    attribute(IPSET_ATTR_SETNAME, SET, sizeof SET);
    attribute(IPSET_ATTR_LINENO, &ZERO, sizeof ZERO);
    struct nlattr *entries = begin_nested(IPSET_ATTR_ADT);
    for (int service = first; service < first + ENTRIES_A_MESSAGE && service < services; service++)
      put_entry(service_address(service));
    end_nested(entries);
    end_message();
    send_batch();
  }
  const double took_ms = now_ms() - start_ms;
  close(netlink);
  return took_ms;
}

int main(int count, char **arguments) {
  const int services = count > 2 ? atoi(arguments[1]) : 0;
  const int endpoints = count > 2 ? atoi(arguments[2]) : -1;
  const int routes = count > 3 && strcmp(arguments[3], "routes") == 0;
  if (services < 1 || endpoints < 0) {
    fprintf(stderr, "floor N M [addresses|routes]: N Services from 1, M endpoints from 0\n");
    return 2;
  }
  const double ipvs_ms = write_virtual_servers(services, endpoints);
  const double addresses_ms = routes ? write_routes(services) : write_addresses(services);
  const double entries_ms = write_entries(services);
  printf("floor n=%d m=%d ipvs=%.1fms %s=%.1fms ipset=%.1fms total=%.1fms\n", services, endpoints, ipvs_ms,
         routes ? "routes" : "addresses", addresses_ms, entries_ms, ipvs_ms + addresses_ms + entries_ms);
  return 0;
}
