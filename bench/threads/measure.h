/* Measurements for the programs of bench/threads: PROGRAM FIGURE [COUNT] prints one number, in
 * nanoseconds or bytes; if it does not know the figure, it exits with status 2. Times are the
 * minimum of many short rounds, because other programs on the machine can only increase them. */
#ifndef BENCH_THREADS_MEASURE_H
#define BENCH_THREADS_MEASURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ROUNDS 60
#define SWITCHES 20000 /* switches per round of each thread */
#define SPAWNS 5000    /* spawns per round */

#define THREAD_BYTES 4500 /* memory of a blocked thread, with page tables */

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

/* End a round with this number of operations. */
static inline void end(double operations)
{
    double each_ns = (now_ns() - began_ns) / operations;
    if (each_ns < best_ns)
        best_ns = each_ns;
}

/* Read a field of /proc/self/status, such as the resident memory. */
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

/* Let the kernel obtain this many bytes of memory from the host. In a virtual machine, the first
 * use of memory includes the time that the host needs to provide it, many times that of a page
 * fault, which would be measured for the first program that uses it. */
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
