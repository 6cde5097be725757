/* A page that takes much processor time and many small reads to make, as the overload experiment of SEDA has it: the work of a
 * dynamic page without its meaning. */
#ifndef GS_SERVE_BOTTLENECK_H
#define GS_SERVE_BOTTLENECK_H

#include <gossamer/http.h>

#define SERVE_BOTTLENECK_PATH 256

struct serve_bottleneck {
    char path[SERVE_BOTTLENECK_PATH]; /* as of gs_http_maker; empty: there is no such page */
    uint64_t cpu_ns;                  /* of the kernel thread that makes it */
    int fd;                           /* what is read */
};

/* word: PATH=MS. Returns 0, or -EINVAL. */
GS_MUST_CHECK int serve_bottleneck_parse(const char *word, struct serve_bottleneck *ret_bottleneck);

/* Returns 0 or -errno. */
GS_MUST_CHECK int serve_bottleneck_open(struct serve_bottleneck *bottleneck);

struct gs_http_maker serve_bottleneck_maker(struct serve_bottleneck *bottleneck);

#endif
