#include "serve/operations/health.h"

static const char text[] = "ok\n";

static int64_t generate(char *bytes, size_t n, void *data)
{
    (void)data;
    memcpy(bytes, text, n);
    return (int64_t)n;
}

struct gs_http_generator serve_health_generator(const char *path)
{
    return (struct gs_http_generator){
        .path = path,
        .media_type = "text/plain; charset=utf-8",
        .max_size = sizeof text - 1,
        .generate = generate,
        .is_quiet = true,
    };
}
