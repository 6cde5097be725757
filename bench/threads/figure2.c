/* Requests that are served by many threads, or by an event-driven server: PROGRAM SERVER COUNT
 * prints nanoseconds per request and switches per request.
 *
 * Each request reads 8 KB of a cached file into a buffer. The servers differ in where it is:
 *
 *     threads    on the stack of the thread
 *     contexts   in the context of the event-driven server
 *     called     on the worker's stack, in a function that the thread calls there
 *     events     on the stack of the only thread of the event-driven server
 *
 * So the first two have COUNT buffers, and the others one. COUNT threads (or contexts) serve one
 * after the other: the one that has waited longest gets the next request, serves it, passes on the
 * following one, and waits again. Their order is random, like that of clients, so memory is not
 * accessed in the order of addresses. */
#include "bench/threads/measure.h"

#include <gossamer/sync.h>
#include <gossamer/sys.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECE 8192
#define PIECES 64     /* pieces of the file */
#define REQUESTS 2000 /* requests per round */
#define STACK_SIZE (16 << 10)

static int file;
static long count, served, rounds_left;
static bool is_finished;

static void make_file(void)
{
    static const char piece[PIECE];
    char path[] = "/tmp/gossamer-figure2-XXXXXX";
    file = mkstemp(path);
    must(file >= 0 && !unlink(path));
    for (int i = 0; i < PIECES; i++)
        must(write(file, piece, PIECE) == PIECE);
}

/* The cost of a request itself, which is the same for both servers. */
static void serve_request(char *piece)
{
    long offset = served % PIECES * PIECE;
    must(gs_syscall(SYS_pread64, file, (long)piece, PIECE, offset, 0, 0) == PIECE);
    if (++served % REQUESTS)
        return;
    end(REQUESTS);
    is_finished = !--rounds_left;
    begin();
}

/* Start the measurement after each thread has served once. */
static void start_over(void)
{
    rounds_left = count / REQUESTS + 500;
    best_ns = 1e18;
    begin();
}

static void shuffle(void **items)
{
    uint64_t random = 88172645463325252u;
    for (long i = count - 1; i > 0; i--) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        long j = (long)(random % (uint64_t)(i + 1));
        void *item = items[i];
        items[i] = items[j];
        items[j] = item;
    }
}

static void **new_items(void)
{
    void **items = calloc((size_t)count, sizeof *items);
    must(items != NULL);
    return items;
}

/* ---- Threads ---- */

static struct gs_semaphore requests, over;
static gs_thread_fn *serving;

static void *serve_with_buffer(void *argument)
{
    _Alignas(64) char piece[PIECE];
    serve_request(piece);
    return argument;
}

/* The same as `serve`, without the buffer. */
static void *serve_by_call(void *argument)
{
    must(!gs_thread_park(GS_NEVER));
    for (;;) {
        must(!gs_semaphore_wait(&requests, GS_NEVER));
        if (is_finished)
            break;
        gs_thread_call_on_worker_stack(serve_with_buffer, NULL);
        gs_semaphore_post(&requests);
    }
    gs_semaphore_post(&over);
    return argument;
}

static void *serve(void *argument)
{
    _Alignas(64) char piece[PIECE];
    must(!gs_thread_park(GS_NEVER));
    for (;;) {
        must(!gs_semaphore_wait(&requests, GS_NEVER));
        if (is_finished)
            break;
        serve_request(piece);
        gs_semaphore_post(&requests);
    }
    gs_semaphore_post(&over);
    return argument;
}

static void *run_threads(void *switches)
{
    const struct gs_thread_attributes small = {.stack_size = STACK_SIZE};
    struct gs_threads_stats before, after;
    void **threads = new_items();
    for (long i = 0; i < count; i++)
        must(!gs_thread_spawn(&small, serving, NULL, (struct gs_thread **)&threads[i]));
    gs_thread_yield();
    shuffle(threads);
    for (long i = 0; i < count; i++)
        gs_thread_unpark(threads[i]);
    gs_thread_yield();
    gs_threads_stats(&before);
    start_over();
    gs_semaphore_post(&requests);
    must(!gs_semaphore_wait(&over, GS_NEVER));
    gs_threads_stats(&after);
    for (long i = 0; i < count; i++)
        gs_semaphore_post(&requests);
    for (long i = 0; i < count; i++)
        must(!gs_thread_join(threads[i], GS_NEVER, NULL));
    free(threads);
    *(double *)switches = (double)(after.switches - before.switches) / (double)served;
    return NULL;
}

/* ---- Events ---- */

struct context {
    struct context *next;
    void (*on_request)(struct context *context, char *piece);
};
static struct context *idle, **idle_end = &idle;
static long pending;

static void wait_for_request(struct context *context)
{
    context->next = NULL;
    *idle_end = context;
    idle_end = &context->next;
}

static void on_request(struct context *context, char *piece)
{
    serve_request(piece);
    pending++;
    wait_for_request(context);
}

/* A context with a buffer of its own. */
struct large_context {
    struct context context;
    _Alignas(64) char piece[PIECE];
};

static void on_request_of_large(struct context *context, char *unused)
{
    (void)unused;
    on_request(context, ((struct large_context *)context)->piece);
}

static void run_events(bool are_large)
{
    _Alignas(64) char piece[PIECE];
    void **contexts = new_items();
    for (long i = 0; i < count; i++) {
        contexts[i] = are_large ? aligned_alloc(64, sizeof(struct large_context))
                                : malloc(sizeof(struct context));
        must(contexts[i] != NULL);
    }
    shuffle(contexts);
    for (long i = 0; i < count; i++) {
        struct context *context = contexts[i];
        context->on_request = are_large ? on_request_of_large : on_request;
        wait_for_request(context);
    }
    start_over();
    for (pending = 1; pending && !is_finished;) {
        struct context *context = idle;
        idle = context->next;
        if (!idle)
            idle_end = &idle;
        pending--;
        context->on_request(context, piece);
    }
}

int main(int argc, char **argv)
{
    /* As the others, without a kernel thread that shares the descriptors. */
    const struct gs_threads_options options = {.stuck_ns = GS_NEVER};
    double switches = 0;
    const char *kind = argc > 1 ? argv[1] : "";
    count = argc > 2 ? strtol(argv[2], NULL, 10) : 1;
    make_file();
    serving = !strcmp(kind, "called") ? serve_by_call : serve;
    if (!strcmp(kind, "threads") || !strcmp(kind, "called"))
        must(!gs_threads_run(&options, run_threads, &switches, NULL));
    else if (!strcmp(kind, "events") || !strcmp(kind, "contexts"))
        run_events(!strcmp(kind, "contexts"));
    else
        return 2;
    printf("%.3f %.3f\n", best_ns, switches);
    fflush(stdout);
    _Exit(0);
}
