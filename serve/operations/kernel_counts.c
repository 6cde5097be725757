#include "serve/operations/kernel_counts.h"

#include <fcntl.h>
#include <gossamer/sys.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The beginning of a file, as a text. Returns whether it could be read. */
static int read_text(const char *path, char *text, size_t size)
{
    int fd = gs_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    ssize_t n = gs_sys_read(fd, text, size - 1);
    gs_sys_close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static uint64_t field(const char *status, const char *name)
{
    const char *at = strstr(status, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* A process of one thread, or of several: then the switches are only those of the first. */
static void count_process(pid_t pid, struct serve_kernel_counts *counts)
{
    char path[40], status[2048];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (!read_text(path, status, sizeof status))
        return;
    counts->processes++;
    counts->threads += field(status, "\nThreads:");
    if (pid == getpid())
        return;
    counts->voluntary += field(status, "\nvoluntary_ctxt_switches:");
    counts->involuntary += field(status, "\nnonvoluntary_ctxt_switches:");
}

void serve_kernel_count(pid_t first, struct serve_kernel_counts *ret_counts)
{
    char path[64], children[4096];
    struct rusage usage;
    *ret_counts = (struct serve_kernel_counts){0};
    count_process(first, ret_counts);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)first, (int)first);
    if (read_text(path, children, sizeof children))
        for (char *at = children, *end; strtol(at, &end, 10) > 0 && end != at; at = end)
            count_process((pid_t)strtol(at, NULL, 10), ret_counts);
    if (getrusage(RUSAGE_SELF, &usage))
        return;
    ret_counts->voluntary += (uint64_t)usage.ru_nvcsw;
    ret_counts->involuntary += (uint64_t)usage.ru_nivcsw;
}
