/* A page that takes much processor time and many small reads to generate, as in the overload
 * experiment of SEDA: the work of a dynamic page without its meaning. */
#ifndef GS_SERVE_BOTTLENECK_H
#define GS_SERVE_BOTTLENECK_H

#include <gossamer/http.h>

#define SERVE_BOTTLENECK_PATH 256

struct serve_bottleneck {
    char path[SERVE_BOTTLENECK_PATH]; /* as in gs_http_generator; empty: there is no such page */
    uint64_t cpu_ns;                  /* of the kernel thread that generates it */
    int fd;                           /* of the file that is read */
};

/* word: PATH=MS. Returns 0, or -EINVAL. */
GS_MUST_CHECK int serve_bottleneck_parse(const char *word, struct serve_bottleneck *ret_bottleneck);

/* Returns 0 or -errno. */
GS_MUST_CHECK int serve_bottleneck_open(struct serve_bottleneck *bottleneck);

struct gs_http_generator serve_bottleneck_generator(struct serve_bottleneck *bottleneck);

#endif
