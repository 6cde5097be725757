/* What the small programs of bench/threads share: PROGRAM FIGURE [COUNT] prints one number, nanoseconds or bytes; an unknown
 * figure is status 2. Times are the least of many short rounds: other programs on the machine only ever add to them. */
#ifndef BENCH_THREADS_MEASURE_H
#define BENCH_THREADS_MEASURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 60
#define SWITCHES 20000 /* in a round, of each thread */
#define SPAWNS 5000    /* in a round */

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

static inline void must(int condition)
{
    if (!condition) {
        fprintf(stderr, "a call failed\n");
        exit(1);
    }
}

#endif
