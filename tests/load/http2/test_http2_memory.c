/* Each allocation of a run over HTTP/2 fails once: the run reports an error or goes on, no request
 * is lost, and nothing leaks. The wrappers (--wrap) below replace the allocations of all but the C
 * library and libnghttp2, whose sessions get theirs from nghttp2_session_client_new. */
#include "tests/load/http2/frame_server.h"
#include "tests/load/remote.h"
#include "tests/load/run.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *memory, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
void __real_free(void *memory);
FILE *__real_open_memstream(char **ret_bytes, size_t *ret_n);
int __real_nghttp2_session_callbacks_new(nghttp2_session_callbacks **ret_callbacks);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *memory, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
void __wrap_free(void *memory);
char *__wrap_strndup(const char *text, size_t n);
FILE *__wrap_open_memstream(char **ret_bytes, size_t *ret_n);
int __wrap_nghttp2_session_callbacks_new(nghttp2_session_callbacks **ret_callbacks);
int __wrap_nghttp2_session_client_new(nghttp2_session **ret_session,
                                      const nghttp2_session_callbacks *callbacks, void *data);

/* Accessed atomically. */
static unsigned long allocations, fails_at = UINT64_MAX;
static long live; /* allocations that are not freed */

static bool fails(void)
{
    return __atomic_add_fetch(&allocations, 1, __ATOMIC_SEQ_CST) ==
           __atomic_load_n(&fails_at, __ATOMIC_SEQ_CST);
}

static void *count(void *memory, long change)
{
    __atomic_fetch_add(&live, memory ? change : 0, __ATOMIC_SEQ_CST);
    return memory;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : count(__real_malloc(n), 1);
}

void *__wrap_calloc(size_t number, size_t n)
{
    return fails() ? NULL : count(__real_calloc(number, n), 1);
}

void *__wrap_realloc(void *memory, size_t n)
{
    return fails() ? NULL : count(__real_realloc(memory, n), !memory);
}

void *__wrap_aligned_alloc(size_t alignment, size_t n)
{
    return fails() ? NULL : count(__real_aligned_alloc(alignment, n), 1);
}

void __wrap_free(void *memory)
{
    count(memory, -1);
    __real_free(memory);
}

char *__wrap_strndup(const char *text, size_t n)
{
    char *copy = __wrap_malloc(n + 1);
    if (copy)
        *(char *)mempcpy(copy, text, strnlen(text, n)) = '\0';
    return copy;
}

/* The caller frees the bytes. */
FILE *__wrap_open_memstream(char **ret_bytes, size_t *ret_n)
{
    return fails() ? NULL : count(__real_open_memstream(ret_bytes, ret_n), 1);
}

/* ---- libnghttp2 ---- */

/* Of a queue: if its first memory can't be allocated, 1.52 frees twice what was to be queued. */
#define QUEUE_N 32

static void *allocate(size_t n, void *data)
{
    (void)data;
    return n == QUEUE_N ? count(__real_malloc(n), 1) : __wrap_malloc(n);
}

static void *allocate_zeroed(size_t number, size_t n, void *data)
{
    (void)data;
    return __wrap_calloc(number, n);
}

static void *reallocate(void *memory, size_t n, void *data)
{
    (void)data;
    return n == QUEUE_N ? count(__real_realloc(memory, n), !memory) : __wrap_realloc(memory, n);
}

static void release(void *memory, void *data)
{
    (void)data;
    __wrap_free(memory);
}

int __wrap_nghttp2_session_callbacks_new(nghttp2_session_callbacks **ret_callbacks)
{
    return fails() ? NGHTTP2_ERR_NOMEM : __real_nghttp2_session_callbacks_new(ret_callbacks);
}

int __wrap_nghttp2_session_client_new(nghttp2_session **ret_session,
                                      const nghttp2_session_callbacks *callbacks, void *data)
{
    nghttp2_mem memory = {NULL, allocate, release, allocate_zeroed, reallocate};
    return nghttp2_session_client_new3(ret_session, callbacks, data, NULL, &memory);
}

/* ---- The test ---- */

enum { REQUESTS = 12, STREAMS = 3 };

struct outcome {
    int err;
    uint64_t requests, errors;
    long left; /* allocations that are not freed */
};

static struct outcome run(struct load_settings *settings)
{
    struct load_target target;
    struct load_result result;
    long before = live;
    struct outcome outcome = {.err = gs_load_target_init(&target, settings)};
    if (!outcome.err) {
        outcome.err = gs_load_run(settings, &target, &result);
        gs_load_target_done(&target);
        if (!outcome.err) {
            outcome.requests = result.metrics.requests;
            outcome.errors = gs_load_metrics_error_count(&result.metrics);
            gs_load_result_done(&result);
        }
    }
    outcome.left = live - before;
    return outcome;
}

/* A connection that fails takes its requests with it; one that cannot start has none. */
static bool is_right(const struct outcome *outcome)
{
    uint64_t sum = outcome->requests + outcome->errors;
    bool is_whole = outcome->err
                        ? outcome->err == -ENOMEM
                        : outcome->errors <= STREAMS && sum >= REQUESTS && sum <= REQUESTS + 1;
    return is_whole && !outcome->left;
}

/* Without the lines that say that memory is exhausted. Returns the number of the first allocation
 * whose failure the run has not survived, 0 if there is none, and *ret_count: of allocations. */
static unsigned long fail_each(struct load_settings *settings, unsigned long *ret_count)
{
    unsigned long wrong = 0;
    int saved = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);
    dup2(null, STDERR_FILENO);
    for (fails_at = 1; !wrong; fails_at++) {
        allocations = 0;
        struct outcome outcome = run(settings);
        if (allocations < fails_at)
            break;
        wrong = is_right(&outcome) ? 0 : fails_at;
    }
    *ret_count = allocations;
    fails_at = UINT64_MAX;
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(null);
    return wrong;
}

TEST(each_allocation_may_fail)
{
    struct remote remote;
    frames_prepare(&(struct script){.answer = frames_hello});
    remote_start(&remote, frames_serve);
    char *argv[] = {"load", "--http2",   "--streams", "3",           "-c",
                    "2",    "--workers", "1",         "--processes", "1",
                    "-n",   "12",        "--body",    "text",        run_url_for(&remote.server)};
    struct load_settings settings;
    unsigned long made;
    CHECK_EQ(gs_load_settings_read(sizeof argv / sizeof *argv, argv, &settings), 0);
    CHECK_EQ(gs_load_settings_choose_processes(&settings), 0);
    (void)run(&settings); /* what stays allocated */
    struct outcome good = run(&settings);
    CHECK(!good.err && good.requests == REQUESTS && !good.errors && !good.left);
    CHECK_EQ(fail_each(&settings, &made), 0);
    CHECK(made > 20);
    struct outcome after = run(&settings);
    CHECK(!after.err && after.requests == REQUESTS && !after.errors);
    gs_load_settings_done(&settings);
    remote_stop(&remote);
}
