// Traffic of the experiment: a server that sends every request back, and clients that make new TCP connections.
//   traffic serve PORT PROCESSES               prints `ready`, and serves until it is killed
//   traffic ask ADDRESS PORT COUNT CLIENTS     COUNT connections by CLIENTS processes at the same time, each process one after the
//                                              other: connect, request, response, close. Prints total=MICROSECONDS; a single
//                                              client before it one line for each connection with its microseconds from
//                                              connect(2) to the end of the response
// Build: gcc -O2 -o traffic traffic.c
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST_BYTES = 64, BACKLOG = 1024, TIMEOUT_SECONDS = 20 };

static double now_us(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1e6 + at.tv_nsec / 1e3;
}

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static int new_socket(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) fail("socket");
  return fd;
}

// Sends each request back until the client closes. The client closes first, so TIME-WAIT is at the client.
static void serve(int listening) {
  char request[REQUEST_BYTES];
  for (;;) {
    int fd = accept(listening, NULL, NULL);
    if (fd < 0) continue;
    for (ssize_t length; (length = read(fd, request, sizeof request)) > 0;)
      if (write(fd, request, length) != length) break;
    close(fd);
  }
}

static void serve_all(int port, int processes) {
  int on = 1, fd = new_socket();
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0) fail("bind");
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

static double ask(const struct sockaddr_in *to) {
  char request[REQUEST_BYTES] = "request", response[REQUEST_BYTES];
  struct timeval limit = {.tv_sec = TIMEOUT_SECONDS};
  int on = 1, fd = new_socket();
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  double from = now_us();
  if (connect(fd, (const struct sockaddr *)to, sizeof *to) < 0) fail("connect");
  if (write(fd, request, sizeof request) != sizeof request) fail("write");
  if (recv(fd, response, sizeof response, MSG_WAITALL) != sizeof response) fail("read");
  double took = now_us() - from;
  if (memcmp(request, response, sizeof request) != 0) fail("response");
  close(fd);
  return took;
}

static void ask_all(const struct sockaddr_in *to, int count, int clients) {
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

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "serve") == 0) {
    serve_all(atoi(argv[2]), atoi(argv[3]));
  } else if (argc == 6 && strcmp(argv[1], "ask") == 0) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[3]))};
    if (inet_pton(AF_INET, argv[2], &to.sin_addr) != 1) fail("address");
    ask_all(&to, atoi(argv[4]), atoi(argv[5]));
  } else {
    fputs("traffic serve PORT PROCESSES | traffic ask ADDRESS PORT COUNT CLIENTS\n", stderr);
    return 2;
  }
  return 0;
}
