// What a few ordinary things cost on this kernel, in one line of NAME=MICROSECONDS; `-` where there is no second processor.
// Each figure is the median of several batches, so that a moment in which other work ran does not count.
// Build: gcc -O2 -o calibrate calibrate.c
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 7, CALLS = 500, PAGES = 250, STARTS = 4, TURNS = 50, STEPS = 2000000, PAGE_BYTES = 4096 };

extern char **environ;

static double now_us(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1e6 + at.tv_nsec / 1e3;
}

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_of(double (*batch)(void)) {
  double times[BATCHES];
  batch();
  for (int i = 0; i < BATCHES; i++) times[i] = batch();
  qsort(times, BATCHES, sizeof times[0], ascending);
  return times[BATCHES / 2];
}

static double system_call(void) {
  double from = now_us();
  for (int i = 0; i < CALLS; i++) syscall(SYS_getppid);
  return (now_us() - from) / CALLS;
}

// The first write to each page of fresh anonymous memory.
static double page_fault(void) {
  char *pages = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) fail("mmap");
  madvise(pages, PAGES * PAGE_BYTES, MADV_NOHUGEPAGE);
  double from = now_us();
  for (int i = 0; i < PAGES; i++) ((volatile char *)pages)[i * PAGE_BYTES] = 1;
  double took = now_us() - from;
  munmap(pages, PAGES * PAGE_BYTES);
  return took / PAGES;
}

// Start, execution and end of `true`.
static double process_start(void) {
  char *argv[] = {"true", NULL};
  double from = now_us();
  for (int i = 0; i < STARTS; i++) {
    pid_t child;
    if (posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ) != 0) fail("posix_spawn");
    waitpid(child, NULL, 0);
  }
  return (now_us() - from) / STARTS;
}

// Multiplications that each wait for the one before: the speed of the processor without the kernel.
static double arithmetic(void) {
  volatile unsigned value = 1;
  double from = now_us();
  for (int i = 0; i < STEPS; i++) value = value * 1664525u + 1013904223u;
  return now_us() - from;
}

static int there[2], back[2];

// One byte to a process that waits for it and answers: two wake-ups a turn.
static double wake_up(void) {
  char byte = 0;
  double from = now_us();
  for (int i = 0; i < TURNS; i++)
    if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) fail("pipe");
  return (now_us() - from) / TURNS / 2;
}

int main(void) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) fail("sched_getaffinity");
  int first = 0;
  while (!CPU_ISSET(first, &allowed)) first++;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  printf("systemCall=%.3f pageFault=%.3f", median_of(system_call), median_of(page_fault));
  printf(" processStart=%.1f arithmetic=%.1f", median_of(process_start), median_of(arithmetic));
  // The other process inherits the processor.
  if (sched_setaffinity(0, sizeof one, &one) != 0) fail("sched_setaffinity");
  if (pipe2(there, O_CLOEXEC) != 0 || pipe2(back, O_CLOEXEC) != 0) fail("pipe2");
  pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    char byte;
    close(there[1]);
    while (read(there[0], &byte, 1) == 1)
      if (write(back[1], &byte, 1) != 1) break;
    _exit(0);
  }
  printf(" wakeUp=%.2f\n", median_of(wake_up));
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  return 0;
}
