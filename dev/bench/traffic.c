// Traffic of measurements and tests: a server that sends every request back, and clients of it. Source ports are taken in turn,
// because two connections of one client to one pod through two frontends must not have the same one (IPVS would mix them up).
//   traffic serve PORT PROCESSES               prints `ready`, and serves all addresses of both families until it is killed
//   traffic ask ADDRESS PORT COUNT CLIENTS     COUNT connections by CLIENTS processes at the same time, each process one after the
//                                              other: connect, request, response, close. Prints total=MICROSECONDS; a single
//                                              client before it one line for each connection with its microseconds from
//                                              connect(2) to the end of the response
//   traffic hold FIRST_PORT COUNT PERIOD_MS ADDRESS PORT...
//                                              COUNT connections to the places in turn, each with a request in each period. Answers
//                                              a line on stdin when every connection has got two more responses, or has ended:
//                                              connections=N dropped=N responses=N longestMs=N
//   traffic rate FIRST_PORT PER_SECOND ADDRESS PORT...
//                                              new connections at this rate to the places in turn, however long each takes. Answers
//                                              a line on stdin: made=N failed=N slow=N longestMs=N, after the connections that
//                                              were open when the line came. slow: 900 ms and longer, as when the kernel sends a lost packet again
// `hold` and `rate` print `ready` when all connections or the first one got a response, write each failure to stderr, and end with
// stdin. A connection without a response for 10 s, or for TRAFFIC_SILENT_SECONDS of the environment, has failed.
// Build: gcc -O2 -o traffic traffic.c
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST_BYTES = 64, BACKLOG = 4096, TIMEOUT_SECONDS = 20, EVENTS = 256, MAX_OPEN = 20000, MAX_PLACES = 64 };
// Source ports are taken from FIRST_PORT to this one, and again.
enum { LAST_PORT = 64999 };
static const double SLOW_US = 900e3;
static double silent_us = 10e6;

static double now_us(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1e6 + at.tv_nsec / 1e3;
}

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void watch(int poll, int fd, unsigned events, void *data) {
  struct epoll_event event = {.events = events, .data.ptr = data};
  if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) < 0) fail("epoll_ctl");
}

// The client closes first, so TIME-WAIT is at the client.
static void serve(int listening) {
  int poll = epoll_create1(0);
  watch(poll, listening, EPOLLIN | EPOLLEXCLUSIVE, (void *)(long)listening);
  struct epoll_event events[EVENTS];
  char request[REQUEST_BYTES];
  for (;;) {
    int count = epoll_wait(poll, events, EVENTS, -1);
    for (int i = 0; i < count; i++) {
      int fd = (int)(long)events[i].data.ptr;
      if (fd == listening) {
        int accepted = accept4(listening, NULL, NULL, SOCK_NONBLOCK);
        if (accepted >= 0) watch(poll, accepted, EPOLLIN, (void *)(long)accepted);
        continue;
      }
      ssize_t length = read(fd, request, sizeof request);
      if (length < 0 && errno == EAGAIN) continue;
      if (length <= 0 || write(fd, request, length) != length) close(fd);
    }
  }
}

static void serve_all(int port, int processes) {
  int on = 1, off = 0, fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);
  struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  struct sockaddr_in at4 = {.sin_family = AF_INET, .sin_port = htons(port)};
  int has6 = fd >= 0;
  if (!has6) fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (fd < 0) fail("socket");
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (has6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(fd, has6 ? (void *)&at : (void *)&at4, has6 ? sizeof at : sizeof at4) < 0) fail("bind");
  if (listen(fd, BACKLOG) < 0) fail("listen");
  puts("ready");
  fflush(stdout);
  for (int i = 1; i < processes; i++)
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      serve(fd);
    }
  serve(fd);
}

typedef struct {
  union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
  } at;
  socklen_t length;
  const char *address, *port;
} Place;

static Place place_of(const char *address, const char *port) {
  Place place = {.address = address, .port = port};
  if (inet_pton(AF_INET, address, &place.at.v4.sin_addr) == 1) {
    place.at.v4.sin_family = AF_INET;
    place.at.v4.sin_port = htons(atoi(port));
    place.length = sizeof place.at.v4;
  } else if (inet_pton(AF_INET6, address, &place.at.v6.sin6_addr) == 1) {
    place.at.v6.sin6_family = AF_INET6;
    place.at.v6.sin6_port = htons(atoi(port));
    place.length = sizeof place.at.v6;
  } else {
    errno = EINVAL;
    fail(address);
  }
  return place;
}

static double ask(const Place *to) {
  char request[REQUEST_BYTES] = "request", response[REQUEST_BYTES];
  struct timeval limit = {.tv_sec = TIMEOUT_SECONDS};
  int on = 1, fd = socket(to->at.any.sa_family, SOCK_STREAM, 0);
  if (fd < 0) fail("socket");
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  double from = now_us();
  if (connect(fd, &to->at.any, to->length) < 0) fail("connect");
  if (write(fd, request, sizeof request) != sizeof request) fail("write");
  if (recv(fd, response, sizeof response, MSG_WAITALL) != sizeof response) fail("read");
  double took = now_us() - from;
  if (memcmp(request, response, sizeof request) != 0) fail("response");
  close(fd);
  return took;
}

static void ask_all(const Place *to, int count, int clients) {
  double *took = calloc(count, sizeof *took);
  if (took == NULL) fail("calloc");
  double from = now_us();
  if (clients == 1) {
    for (int i = 0; i < count; i++) took[i] = ask(to);
  } else {
    for (int client = 0; client < clients; client++) {
      pid_t child = fork();
      if (child < 0) fail("fork");
      if (child > 0) continue;
      for (int i = client; i < count; i += clients) ask(to);
      _exit(0);
    }
    for (int status; wait(&status) > 0;)
      if (status != 0) exit(1);
  }
  double total = now_us() - from;
  if (clients == 1)
    for (int i = 0; i < count; i++) printf("%.1f\n", took[i]);
  printf("total=%.1f\n", total);
}

// A connection of `hold` or `rate`; fd is -1 when it has ended, or before it began.
typedef struct {
  int fd, place, sent, received;
  long number, responses, needed;
  double begun, asked, next;
} Connection;

static Place places[MAX_PLACES];
static int place_count, poller, is_hold, period_ms, first_port, next_port;
static Connection *all;
static int used;
static long begun, ended, failed, slow, responses;
static double longest;

static void over(Connection *c, const char *why) {
  if (why != NULL) {
    failed++;
    struct timespec at;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &at);
    gmtime_r(&at.tv_sec, &utc);
    fprintf(stderr, "failed at %02d:%02d:%02d.%03ld: %s %s after %.0f ms, %ld responses: %s\n", utc.tm_hour, utc.tm_min,
            utc.tm_sec, at.tv_nsec / 1000000, places[c->place].address, places[c->place].port, (now_us() - c->begun) / 1e3,
            c->responses, why);
  }
  ended++;
  close(c->fd);
  c->fd = -1;
}

static int open_from(const Place *to, int port) {
  // An abortive close leaves no TIME-WAIT, so a port can be used again; `rate` needs that.
  struct linger abortive = {.l_onoff = 1, .l_linger = 0};
  int on = 1, fd = socket(to->at.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (fd < 0) fail("socket");
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &abortive, sizeof abortive);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  Place any = *to;
  if (to->at.any.sa_family == AF_INET) {
    any.at.v4.sin_addr.s_addr = INADDR_ANY;
    any.at.v4.sin_port = htons(port);
  } else {
    any.at.v6.sin6_addr = in6addr_any;
    any.at.v6.sin6_port = htons(port);
  }
  if (bind(fd, &any.at.any, any.length) < 0) fail("bind");
  return fd;
}

static void begin(Connection *c) {
  *c = (Connection){.place = begun % place_count, .number = begun, .begun = now_us(), .asked = now_us()};
  begun++;
  const Place *to = &places[c->place];
  c->fd = open_from(to, next_port);
  next_port = next_port == LAST_PORT ? first_port : next_port + 1;
  if (connect(c->fd, &to->at.any, to->length) < 0 && errno != EINPROGRESS) return over(c, strerror(errno));
  watch(poller, c->fd, EPOLLIN | EPOLLOUT | EPOLLET, c);
}

// Sends the next request. Each differs from the one before, so that no late response counts as the next one.
static void send_request(Connection *c) {
  char request[REQUEST_BYTES] = "";
  snprintf(request, sizeof request, "request %ld of %ld", c->responses, c->number);
  c->sent = 1;
  c->received = 0;
  if (c->responses > 0) c->asked = now_us();
  if (write(c->fd, request, sizeof request) != sizeof request) over(c, strerror(errno));
}

static void responded(Connection *c) {
  double took = now_us() - c->asked;
  if (took > longest) longest = took;
  if (took >= SLOW_US) slow++;
  c->responses++;
  responses++;
  c->sent = 0;
  c->next = now_us() + period_ms * 1e3;
  if (!is_hold) over(c, NULL);
}

static void ready(Connection *c, unsigned events) {
  int error = 0;
  socklen_t length = sizeof error;
  if (events & EPOLLERR) {
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    return over(c, strerror(error));
  }
  if ((events & EPOLLOUT) && c->responses == 0 && !c->sent) send_request(c);
  if (c->fd < 0 || !(events & EPOLLIN)) return;
  char response[REQUEST_BYTES], wanted[REQUEST_BYTES] = "";
  snprintf(wanted, sizeof wanted, "request %ld of %ld", c->responses, c->number);
  ssize_t got = read(c->fd, response, sizeof response - c->received);
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0) return over(c, got == 0 ? "the server closed it" : strerror(errno));
  if (memcmp(response, wanted + c->received, got) != 0) return over(c, "a wrong response");
  c->received += got;
  if (c->received == REQUEST_BYTES) responded(c);
}

// Requests that are due, and connections that have been silent for too long.
static void tick(void) {
  double now = now_us();
  for (int i = 0; i < used; i++) {
    Connection *c = &all[i];
    if (c->fd < 0) continue;
    if (is_hold && !c->sent && c->responses > 0 && now >= c->next) send_request(c);
    else if ((c->sent || c->responses == 0) && now - c->asked >= silent_us) over(c, "no response");
  }
}

static Connection *unused(void) {
  for (int i = 0; i < used; i++)
    if (all[i].fd < 0) return &all[i];
  if (used == MAX_OPEN) {
    errno = ENOBUFS;
    fail("connections");
  }
  return &all[used++];
}

// Whether what a line on stdin waits for has happened; `until` is the number of connections when the line came.
static int is_checked(long until) {
  for (int i = 0; i < used; i++) {
    if (all[i].fd < 0) continue;
    if (is_hold ? all[i].responses < all[i].needed : all[i].number < until) return 0;
  }
  return 1;
}

static void report(void) {
  if (is_hold) printf("connections=%ld dropped=%ld responses=%ld", begun, failed, responses);
  else printf("made=%ld failed=%ld slow=%ld", ended, failed, slow);
  printf(" longestMs=%.1f\n", longest / 1e3);
  fflush(stdout);
}

static void drive(int count, int per_second, char **args, int args_count) {
  struct rlimit files = {MAX_OPEN + 100, MAX_OPEN + 100};
  setrlimit(RLIMIT_NOFILE, &files);
  place_count = args_count / 2;
  for (int i = 0; i < place_count; i++) places[i] = place_of(args[2 * i], args[2 * i + 1]);
  is_hold = count > 0;
  next_port = first_port;
  all = calloc(MAX_OPEN, sizeof *all);
  poller = epoll_create1(0);
  if (all == NULL || poller < 0) fail("epoll_create1");
  watch(poller, STDIN_FILENO, EPOLLIN, NULL);
  double start = now_us(), ticked = 0;
  int is_ready = 0, is_asked = 0, is_over = 0;
  long until = 0;
  struct epoll_event events[EVENTS];
  while (!is_over || is_asked) {
    double now = now_us();
    // A burst of at most 100 connections after this process had to wait, so that `rate` stays a rate.
    long due = is_hold ? count : (long)((now - start) * per_second / 1e6) + 1;
    if (!is_hold && due > begun + 100) {
      start += (due - begun - 100) * 1e6 / per_second;
      due = begun + 100;
    }
    // `hold` opens 100 at a time, so that no backlog is full.
    while (begun < due && (!is_hold || begun - responses < 100 || is_ready)) begin(unused());
    double wait_ms = is_hold || begun < due ? 10 : ((begun + 1) * 1e6 / per_second - (now - start)) / 1e3;
    int ready_count = epoll_wait(poller, events, EVENTS, wait_ms < 1 ? 1 : wait_ms > 10 ? 10 : (int)wait_ms);
    for (int i = 0; i < ready_count; i++) {
      Connection *c = events[i].data.ptr;
      if (c != NULL) {
        if (c->fd >= 0) ready(c, events[i].events);
        continue;
      }
      char line[64];
      if (read(STDIN_FILENO, line, sizeof line) <= 0) {
        is_over = 1;
        epoll_ctl(poller, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
        continue;
      }
      is_asked = 1;
      until = begun;
      for (int j = 0; j < used; j++) all[j].needed = all[j].responses + 2;
    }
    if (now - ticked >= 10e3) {
      tick();
      ticked = now;
    }
    if (!is_ready && responses >= (is_hold ? count : 1)) {
      is_ready = 1;
      puts("ready");
      fflush(stdout);
    }
    if (is_hold && !is_ready && failed > 0) exit(1);
    if (is_asked && is_ready && is_checked(until)) {
      is_asked = 0;
      report();
    }
  }
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  const char *silent = getenv("TRAFFIC_SILENT_SECONDS");
  if (silent != NULL) silent_us = atof(silent) * 1e6;
  if (argc == 4 && strcmp(argv[1], "serve") == 0) {
    serve_all(atoi(argv[2]), atoi(argv[3]));
  } else if (argc == 6 && strcmp(argv[1], "ask") == 0) {
    Place to = place_of(argv[2], argv[3]);
    ask_all(&to, atoi(argv[4]), atoi(argv[5]));
  } else if (argc >= 7 && argc % 2 == 1 && argc <= 5 + 2 * MAX_PLACES && strcmp(argv[1], "hold") == 0) {
    first_port = atoi(argv[2]);
    period_ms = atoi(argv[4]);
    drive(atoi(argv[3]), 0, argv + 5, argc - 5);
  } else if (argc >= 6 && argc % 2 == 0 && argc <= 4 + 2 * MAX_PLACES && strcmp(argv[1], "rate") == 0) {
    first_port = atoi(argv[2]);
    drive(0, atoi(argv[3]), argv + 4, argc - 4);
  } else {
    fputs("traffic serve PORT PROCESSES | traffic ask ADDRESS PORT COUNT CLIENTS | traffic hold FIRST_PORT COUNT PERIOD_MS ADDRESS PORT... |\n"
          "traffic rate FIRST_PORT PER_SECOND ADDRESS PORT...\n",
          stderr);
    return 2;
  }
  return 0;
}
