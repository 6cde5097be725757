/* The calls that wait, for kernel threads and processes: sockets are non-blocking, and what would
 * block waits in poll, together with the descriptor that tells that the server drains. So deadlines
 * are exact, and no signal is needed to end a wait. */
#include "serve/connection/blocking.h"
#include "serve/connection/tls.h"

#include <gossamer/sys.h>

/* On the stack; what is not received into is not touched. */
#define RECEIVE_SIZE 16384

static uint64_t now(void)
{
    return gs_clock_now();
}

static uint64_t drain_until(const struct serve_blocking *blocking)
{
    return atomic_load_explicit(&serve_kernel_of(blocking)->admission->drain_until_ns,
                                memory_order_relaxed);
}

static int kernel_wait(struct serve_blocking *blocking, unsigned events, uint64_t deadline_ns)
{
    struct pollfd polls[] = {
        {.fd = events ? blocking->base.fd : -1, .events = (short)events},
        {.fd = blocking->is_draining ? -1 : serve_kernel_of(blocking)->admission->drain_fd,
         .events = POLLIN},
    };
    int n;
    if (!deadline_ns)
        return -ETIMEDOUT;
    serve_shard_flush(blocking->base.shard);
    do {
        uint64_t now_ns = gs_clock_now();
        uint64_t expiry_ns = serve_shard_tend(blocking->base.shard, now_ns);
        uint64_t until_ns = expiry_ns < deadline_ns ? expiry_ns : deadline_ns;
        uint64_t timeout_ns = until_ns > now_ns ? until_ns - now_ns : 0;
        n = gs_sys_poll(polls, 2, until_ns == GS_NEVER ? GS_NEVER : timeout_ns);
        if (n == -EINTR)
            serve_shard_flush(blocking->base.shard);
    } while (n == -EINTR || (!n && gs_clock_now() < deadline_ns));
    if (n <= 0)
        return n ? n : -ETIMEDOUT;
    if (polls[1].revents)
        return -ECANCELED;
    if (polls[0].revents & (POLLIN | POLLHUP | POLLERR))
        blocking->is_readable = true;
    return polls[0].revents;
}

/* A step of a handshake waits for its turn: so the threads of other connections share the
 * processors with few, however many make handshakes. */
static ssize_t answer(struct serve_blocking *blocking, const char *bytes, size_t n)
{
    struct serve_turns *turns = &serve_kernel_of(blocking)->admission->handshakes;
    if (!blocking->base.is_tls || !serve_tls_makes_handshake(&blocking->base))
        return serve_blocking_answer(blocking, bytes, n);
    pthread_mutex_t *turn = serve_turns_take(turns);
    ssize_t result = serve_blocking_answer(blocking, bytes, n);
    pthread_mutex_unlock(turn);
    return result;
}

/* What is known to be empty is not asked: a request costs one recv, one send and one poll. */
static ssize_t kernel_receive(struct serve_blocking *blocking, uint64_t deadline_ns)
{
    char buffer[RECEIVE_SIZE];
    for (;;) {
        ssize_t n = blocking->is_readable ? gs_sys_recv(blocking->base.fd, buffer, sizeof buffer, 0)
                                          : -EAGAIN;
        if (n == -EINTR)
            continue;
        blocking->is_readable = n == RECEIVE_SIZE;
        if (n >= 0)
            return answer(blocking, buffer, (size_t)n);
        int ready = n == -EAGAIN ? kernel_wait(blocking, POLLIN, deadline_ns) : (int)n;
        if (ready < 0)
            return ready;
    }
}

static ssize_t kernel_send(struct serve_blocking *blocking, struct serve_output *output,
                           uint64_t deadline_ns)
{
    for (;;) {
        ssize_t n = serve_output_send(output, blocking->base.fd);
        int ready = n == -EAGAIN ? kernel_wait(blocking, POLLOUT, deadline_ns) : 0;
        if (n != -EAGAIN || ready < 0)
            return n != -EAGAIN ? n : ready;
    }
}

void serve_kernel_init(struct serve_kernel *kernel, struct serve_admission *admission,
                       struct serve_shard *shard, const struct serve_accepted *accepted)
{
    static const struct serve_blocking_calls calls = {
        .receive_and_answer = kernel_receive,
        .send = kernel_send,
        .wait = kernel_wait,
        .load = gs_http_load_run,
        .now = now,
        .drain_until = drain_until,
        .is_kernel = true,
    };
    struct serve_connection *base = &kernel->blocking.base;
    serve_blocking_init(&kernel->blocking, &calls, shard, accepted);
    kernel->admission = admission;
    kernel->idle_limit_ns = GS_NEVER;
    kernel->entry = serve_table_add(admission->table, accepted->fd, serve_connection_address(base));
}

void serve_kernel_done(struct serve_kernel *kernel)
{
    struct serve_connection *base = &kernel->blocking.base;
    if (kernel->entry)
        serve_table_remove(kernel->admission->table, kernel->entry);
    serve_connection_done(base);
    serve_shard_flush(base->shard);
}

void serve_kernel_run(struct serve_admission *admission, struct serve_shard *shard,
                      const struct serve_accepted *accepted)
{
    struct serve_kernel kernel;
    serve_kernel_init(&kernel, admission, shard, accepted);
    serve_blocking_run(&kernel.blocking);
    serve_kernel_done(&kernel);
}

int serve_kernel_thread_create(pthread_t *ret_thread, void *(*run)(void *data), void *data)
{
    pthread_attr_t attributes;
    int err = -pthread_attr_init(&attributes);
    if (err)
        return err;
    pthread_attr_setstacksize(&attributes, SERVE_KERNEL_STACK_SIZE);
    err = -pthread_create(ret_thread, &attributes, run, data);
    pthread_attr_destroy(&attributes);
    return err;
}
