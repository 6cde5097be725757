/* What the small programs of bench/threads share: PROGRAM FIGURE [COUNT] prints one number, nanoseconds or bytes; an unknown
 * figure is status 2. Times are the least of many short rounds: other programs on the machine only ever add to them. */
#ifndef BENCH_THREADS_MEASURE_H
#define BENCH_THREADS_MEASURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ROUNDS 60
#define SWITCHES 20000 /* in a round, of each thread */
#define SPAWNS 5000    /* in a round */

#define THREAD_BYTES 4500 /* of one that is blocked, with page tables */

static double best_ns = 1e18;
static double began_ns;

static inline double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static inline void begin(void)
{
    began_ns = now_ns();
}

/* A round of so many operations is over. */
static inline void end(double operations)
{
    double each_ns = (now_ns() - began_ns) / operations;
    if (each_ns < best_ns)
        best_ns = each_ns;
}

/* Resident memory, and of the page tables. */
static inline double memory_of(const char *field)
{
    char line[256];
    double kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "re");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, field, strlen(field)))
            kilobytes = strtod(line + strlen(field) + 1, NULL);
    if (status)
        fclose(status);
    return kilobytes * 1024;
}

/* Have so many bytes in the kernel's hands that were used before: in a virtual machine, the first use of memory costs what its
 * host takes to provide it, many times a page fault, and whoever comes first would pay. */
static inline void warm_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED)
        munmap(memory, bytes);
}

static inline void must(int condition)
{
    if (!condition) {
        fprintf(stderr, "a call failed\n");
        exit(1);
    }
}

#endif
