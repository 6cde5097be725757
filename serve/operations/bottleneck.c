#include "serve/operations/bottleneck.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE_SIZE 8192
#define READ_SIZE 512
#define MS_MAX 60000

/* Reads between two readings of the clock. */
#define READS_PER_CHECK 16

int serve_bottleneck_parse(const char *word, struct serve_bottleneck *ret_bottleneck)
{
    const char *equals = strrchr(word, '=');
    size_t n = equals ? (size_t)(equals - word) : 0;
    if (n < 2 || word[0] != '/' || n > SERVE_BOTTLENECK_PATH || equals[1] < '0' || equals[1] > '9')
        return -EINVAL;
    char *end;
    unsigned long ms = strtoul(equals + 1, &end, 10);
    if (*end || !ms || ms > MS_MAX)
        return -EINVAL;
    *ret_bottleneck = (struct serve_bottleneck){.cpu_ns = ms * GS_MILLISECOND, .fd = -1};
    memcpy(ret_bottleneck->path, word + 1, n - 1);
    return 0;
}

/* Where the kernel lacks or refuses memfd_create. */
static int open_temporary(void)
{
    char path[] = "/tmp/gossamer-bottleneck-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

int serve_bottleneck_open(struct serve_bottleneck *bottleneck)
{
    char content[PAGE_SIZE];
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (char)('a' + i % 26);
    int fd = memfd_create("bottleneck", MFD_CLOEXEC);
    if (fd < 0 && errno != EMFILE && errno != ENFILE)
        fd = open_temporary();
    if (fd < 0)
        return -errno;
    if (gs_sys_write(fd, content, sizeof content) != sizeof content) {
        gs_sys_close(fd);
        return -ENOSPC;
    }
    bottleneck->fd = fd;
    return 0;
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * GS_SECOND + (uint64_t)used.tv_nsec;
}

/* Read a part of the file, chosen by what was read before, and mix it in. */
static uint64_t work(const struct serve_bottleneck *bottleneck, uint64_t sum)
{
    unsigned char part[READ_SIZE];
    off_t offset = (off_t)(sum % (PAGE_SIZE - READ_SIZE));
    ssize_t n = gs_sys_pread(bottleneck->fd, part, sizeof part, offset);
    for (ssize_t i = 0; i < n; i++)
        sum = (sum ^ part[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static int64_t make(char *bytes, size_t n, void *data)
{
    const struct serve_bottleneck *bottleneck = data;
    uint64_t end_ns = thread_cpu_ns() + bottleneck->cpu_ns, sum = 1;
    while (thread_cpu_ns() < end_ns)
        for (int i = 0; i < READS_PER_CHECK; i++)
            sum = work(bottleneck, sum);
    memset(bytes, '.', n);
    snprintf(bytes, n, "<!doctype html><title>%016llx</title>\n", (unsigned long long)sum);
    bytes[strlen(bytes)] = '\n';
    return (int64_t)n;
}

struct gs_http_generator serve_bottleneck_generator(struct serve_bottleneck *bottleneck)
{
    return (struct gs_http_generator){
        .path = bottleneck->path,
        .media_type = "text/html; charset=utf-8",
        .max_size = PAGE_SIZE,
        .generate = make,
        .data = bottleneck,
    };
}
