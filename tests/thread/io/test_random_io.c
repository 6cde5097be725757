/* Threads on 1 to 3 workers make random calls of io.h, determined by a seed, on files of all kinds,
 * while these are closed, replaced and reopened, and some of the calls are canceled. A model
 * (random_io.h) tells what a call may return, and which bytes. GOSSAMER_TEST_SEED repeats a failed
 * seed, but not its schedule; GOSSAMER_TEST_SECONDS is for how long there are new seeds. */
#include "tests/thread/io/random_io_files.h"

enum { STEPS = 150, BYTES_MAX = 12288, DRAIN_BYTES = 4096 };

/* ---- Reading ---- */

struct transfer {
    struct end *end;
    char *bytes;
    size_t n;
    uint64_t deadline_ns;
};

static ssize_t read_into_two(const struct transfer *t)
{
    struct iovec parts[] = {{t->bytes, t->n / 2}, {t->bytes + t->n / 2, t->n - t->n / 2}};
    return gs_readv(t->end->fd, parts, 2, t->deadline_ns);
}

static ssize_t keep(void *bytes, const void *received, size_t n)
{
    HOLDS(n <= STREAM_BYTES, "gs_recv_with", n);
    memcpy(bytes, received, n);
    return (ssize_t)n;
}

/* A pipe between takes what it has room for. */
static ssize_t send_from(const struct transfer *t)
{
    int fds[2];
    MUST_EQ(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    ssize_t n = gs_sendfile(fds[1], t->end->fd, NULL, t->n, t->deadline_ns);
    if (n > 0)
        MUST_EQ(read(fds[0], t->bytes, (size_t)n), n);
    gs_close(fds[0]);
    gs_close(fds[1]);
    return n;
}

static bool is_socket(const struct end *end)
{
    return end->kind == UNIX || end->kind == TCP;
}

static ssize_t make_read(unsigned way, const struct transfer *t)
{
    int fd = t->end->fd;
    if (way == 0)
        return read_into_two(t);
    if (way == 1 && t->end->kind == REGULAR)
        return send_from(t);
    if (way == 2 && is_socket(t->end))
        return gs_recv(fd, t->bytes, t->n, 0, t->deadline_ns);
    if (way == 3 && is_socket(t->end))
        return gs_recv_with(fd, keep, t->bytes, t->deadline_ns);
    return gs_read(fd, t->bytes, t->n, t->deadline_ns);
}

static ssize_t read_some(struct actor *actor, struct end *end, size_t n, uint64_t deadline_ns)
{
    char bytes[STREAM_BYTES];
    const struct transfer transfer = {end, bytes, n, deadline_ns};
    struct stream *in = end->in;
    if (!in->is_shared && !take(&in->is_read))
        return -EBUSY;
    ssize_t result = -EBUSY;
    if (begin_call(actor, end, "a read", deadline_ns)) {
        result = make_read(draw(actor, 5), &transfer);
        check_result(actor, end, result);
        HOLDS(result || is_gone(end->peer), "end of file", end->kind);
        end_call(actor);
    }
    if (result > 0)
        check_bytes(in, bytes, (size_t)result);
    else if (!result)
        atomic_store(&in->has_ended, true);
    atomic_store(&in->is_read, false);
    return result;
}

/* ---- Writing ---- */

static ssize_t send_to(const struct transfer *t)
{
    off_t offset = 0;
    int fd = memfd_create("part", MFD_CLOEXEC);
    MUST_EQ(write(fd, t->bytes, t->n), t->n);
    ssize_t n = gs_sendfile(t->end->fd, fd, &offset, t->n, t->deadline_ns);
    HOLDS(offset == (n > 0 ? n : 0), "offset of gs_sendfile", offset);
    gs_close(fd);
    return n;
}

static ssize_t make_write(unsigned way, const struct transfer *t)
{
    int fd = t->end->fd;
    struct iovec parts[] = {{t->bytes, t->n / 2}, {t->bytes + t->n / 2, t->n - t->n / 2}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (way == 0)
        return gs_writev(fd, parts, 2, t->deadline_ns);
    if (way == 2 && t->end->kind < TERMINAL)
        return send_to(t);
    if (way == 3 && is_socket(t->end))
        return gs_send(fd, t->bytes, t->n, 0, t->deadline_ns);
    if (way == 4 && is_socket(t->end))
        return gs_sendmsg(fd, &message, 0, t->deadline_ns);
    return gs_write(fd, t->bytes, t->n, t->deadline_ns);
}

/* Of a pipe, what is not written leaves a gap. Returns the position. */
static unsigned claim(struct stream *out, size_t n)
{
    if (out->is_shared)
        return atomic_fetch_add(&out->limit, (unsigned)n);
    unsigned position = atomic_load(&out->written);
    atomic_store(&out->limit, position + (unsigned)n);
    return position;
}

static ssize_t write_some(struct actor *actor, struct end *end, size_t n, uint64_t deadline_ns)
{
    char bytes[STREAM_BYTES];
    const struct transfer transfer = {end, bytes, n, deadline_ns};
    struct stream *out = end->out;
    if (!out->is_shared && !take(&out->is_written))
        return -EBUSY;
    unsigned position = claim(out, n);
    ssize_t result = -EBUSY;
    if (position + n <= STREAM_BYTES && begin_call(actor, end, "a write", deadline_ns)) {
        mark(out, position, bytes, n);
        result = make_write(draw(actor, 6), &transfer);
        check_result(actor, end, result);
        HOLDS(result, "a write of nothing", end->kind);
        end_call(actor);
    }
    if (result > 0)
        atomic_fetch_add(&out->written, (unsigned)result);
    if (!out->is_shared)
        atomic_store(&out->limit, atomic_load(&out->written));
    HOLDS(out->is_shared || atomic_load(&out->read) <= atomic_load(&out->written),
          "read of what was not written", result);
    atomic_store(&out->is_written, false);
    return result;
}

/* ---- Other files ---- */

static void use_events(struct actor *actor, struct end *end, uint64_t deadline_ns)
{
    uint64_t count = 1 + draw(actor, 5);
    bool is_read = draw(actor, 2);
    if (!begin_call(actor, end, "an eventfd", deadline_ns))
        return;
    if (!is_read)
        atomic_fetch_add(&end->in->limit, (unsigned)count);
    ssize_t n = is_read ? gs_read(end->fd, &count, sizeof count, deadline_ns)
                        : gs_write(end->fd, &count, sizeof count, deadline_ns);
    check_result(actor, end, n);
    HOLDS(n < 0 || n == 8, "an eventfd", n);
    end_call(actor);
    atomic_uint *sum = is_read ? &end->in->read : &end->in->written;
    if (n == 8)
        atomic_fetch_add(sum, (unsigned)count);
    HOLDS(atomic_load(&end->in->read) <= atomic_load(&end->in->limit), "events", n);
}

static void use_regular(struct actor *actor, struct end *end, uint64_t deadline_ns)
{
    char bytes[BYTES_MAX], expected[BYTES_MAX];
    size_t n = 1 + draw(actor, BYTES_MAX - 8), offset = draw(actor, STREAM_BYTES - BYTES_MAX);
    unsigned way = draw(actor, 8);
    if (way < 4) {
        (void)read_some(actor, end, (n | 7) + 1, deadline_ns);
        return;
    }
    mark(end->in, offset, expected, n);
    memcpy(bytes, expected, n);
    if (!begin_call(actor, end, "a regular file", deadline_ns))
        return;
    ssize_t done = way == 4   ? gs_pwrite(end->fd, bytes, n, (off_t)offset, deadline_ns)
                   : way == 5 ? gs_fsync(end->fd, deadline_ns)
                              : gs_pread(end->fd, bytes, n, (off_t)offset, deadline_ns);
    check_result(actor, end, done);
    end_call(actor);
    if (way > 5 && done > 0)
        HOLDS(!memcmp(bytes, expected, (size_t)done), "gs_pread", done);
}

/* A connection that is closed at once may be accepted by anyone. */
static void use_listener(struct actor *actor, struct end *end, uint64_t deadline_ns)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    bool connects = draw(actor, 2);
    if (!begin_call(actor, end, "a listener", deadline_ns))
        return;
    int fd = connects && !getsockname(end->fd, (struct sockaddr *)&address, &length)
                 ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
                 : gs_accept(end->fd, NULL, NULL, SOCK_CLOEXEC, deadline_ns);
    check_result(actor, end, fd);
    end_call(actor);
    atomic_fetch_add(&end->in->read, !connects && fd >= 0);
    atomic_fetch_add(&end->in->limit, connects);
    if (connects)
        (void)!gs_connect(fd, (struct sockaddr *)&address, length, deadline_ns);
    if (fd >= 0)
        gs_close(fd);
    HOLDS(atomic_load(&end->in->read) <= atomic_load(&end->in->limit), "connections", fd);
}

static void wait_for(struct actor *actor, struct end *end, uint64_t deadline_ns)
{
    struct gs_poll polls[] = {{.fd = end->fd, .events = GS_READ},
                              {.fd = end->fd, .events = GS_WRITE}};
    struct gs_select each = {.fd = end->fd, .events = GS_READ};
    unsigned way = draw(actor, 4);
    if (end->kind == REGULAR || !begin_call(actor, end, "a wait", deadline_ns))
        return;
    int result = way == 0   ? gs_poll(polls, 1 + draw(actor, 2), deadline_ns)
                 : way == 1 ? gs_select(&each, 1, deadline_ns)
                 : way == 2 ? gs_wait_readable(end->fd, deadline_ns)
                            : gs_wait_writable(end->fd, deadline_ns);
    check_result(actor, end, way || result ? result : -ETIMEDOUT);
    end_call(actor);
}

/* ---- Steps ---- */

static uint64_t any_deadline(struct actor *actor)
{
    static const unsigned limits_us[] = {20, 200, 2000, 20000};
    return draw(actor, 8) ? after(draw(actor, limits_us[draw(actor, 4)]) * GS_MICROSECOND) : 0;
}

static void transfer_some(struct actor *actor, struct end *end, uint64_t deadline_ns)
{
    size_t n = 1 + draw(actor, draw(actor, 4) ? 256 : BYTES_MAX);
    bool is_read = draw(actor, 2);
    if (!(is_read ? end->in : end->out))
        return;
    if (end->kind <= FIFO)
        n = (n + 7) & ~(size_t)7;
    if (is_read)
        (void)read_some(actor, end, n, deadline_ns);
    else
        (void)write_some(actor, end, n, deadline_ns);
}

static void use_any(struct actor *actor)
{
    struct pair *pair = atomic_load(&slots[draw(actor, SLOTS)]);
    struct end *end = pair ? &pair->ends[draw(actor, 2)] : NULL;
    uint64_t deadline_ns = any_deadline(actor);
    if (!pair || end->fd < 0)
        return;
    if (draw(actor, 6) == 0)
        wait_for(actor, end, deadline_ns);
    else if (is_stream(end))
        transfer_some(actor, end, deadline_ns);
    else if (end->kind == EVENTS)
        use_events(actor, end, deadline_ns);
    else if (end->kind == REGULAR)
        use_regular(actor, end, deadline_ns);
    else
        use_listener(actor, end, deadline_ns);
}

static void *use_some(void *actor)
{
    for (int i = 0; i < 3; i++)
        use_any(actor);
    return NULL;
}

/* Another thread makes the actor's calls, and is canceled. */
static void use_and_cancel(struct actor *actor)
{
    unsigned delay_us = draw(actor, 300);
    struct gs_thread *thread = spawn(use_some, actor);
    if (delay_us < 200)
        (void)gs_thread_sleep(after(delay_us * GS_MICROSECOND));
    atomic_store(&actor->is_canceled, true);
    gs_thread_cancel(thread);
    join(thread);
    atomic_store(&actor->is_canceled, false);
}

static void *act(void *actor_)
{
    struct actor *actor = actor_;
    for (int i = 0; i < STEPS; i++) {
        unsigned kind = draw(actor, 16);
        if (kind == 0)
            renew(actor);
        else if (kind == 1)
            use_and_cancel(actor);
        else
            use_any(actor);
    }
    return NULL;
}

/* ---- The end ---- */

static void *fill_end(void *end_)
{
    struct end *end = end_;
    struct actor *actor = &actors[0];
    uint64_t deadline_ns = after(SLACK_S * GS_SECOND);
    for (size_t left = DRAIN_BYTES; left;) {
        ssize_t n = write_some(actor, end, left, deadline_ns);
        if (n == -EBUSY)
            break; /* the stream is long enough */
        HOLDS(n > 0, "a write while another thread reads", n);
        left -= (size_t)n;
    }
    atomic_store(&end->is_shut, true);
    if (is_socket(end))
        MUST_EQ(shutdown(end->fd, SHUT_WR), 0);
    else if (end->kind != TERMINAL)
        close_end(end);
    return NULL;
}

/* Until the end, or until all was read that was written. */
static void empty_end(struct end *end)
{
    struct stream *in = end->in;
    uint64_t deadline_ns = after(SLACK_S * GS_SECOND);
    ssize_t n = 1;
    while (n > 0 && (end->kind != TERMINAL || !atomic_load(&end->peer->is_shut) ||
                     atomic_load(&in->read) < atomic_load(&in->written))) {
        uint64_t soon_ns = end->kind == TERMINAL ? after(GS_MILLISECOND) : deadline_ns;
        n = read_some(&actors[1], end, 512, soon_ns);
        if (end->kind == TERMINAL && n == -ETIMEDOUT && gs_clock_now() < deadline_ns)
            n = 1;
    }
    HOLDS(n >= 0, "a read while another thread writes", n);
}

static void drain(struct end *end)
{
    if (end->peer && end->in && !is_gone(end) && !is_gone(end->peer)) {
        struct gs_thread *filling = spawn(fill_end, end->peer);
        empty_end(end);
        join(filling);
    }
}

static void check_counts(const struct pair *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct stream *in = &pair->streams[i];
        bool is_whole = in->has_ended && pair->ends[0].kind != TERMINAL &&
                        !pair->ends[0].is_reset && !pair->ends[1].is_reset;
        if (is_whole)
            HOLDS(in->read == in->written, "bytes were lost; kind", pair->ends[0].kind);
    }
}

static void end_round(struct pair *pair)
{
    uint64_t count = 0;
    struct end *end = &pair->ends[0];
    drain(end);
    atomic_store(&pair->ends[1].is_shut, false);
    if (end->kind > FIFO && is_stream(end))
        drain(&pair->ends[1]);
    check_counts(pair);
    if (end->kind == EVENTS && !atomic_load(&end->is_closing)) {
        if (gs_read(end->fd, &count, sizeof count, 0) < 0)
            count = 0;
        HOLDS(end->in->written == end->in->read + count, "events were lost", count);
    }
    close_end(end);
    close_end(&pair->ends[1]);
}

THREAD(run_actors)
{
    for (unsigned i = 0; i < ACTORS; i++) {
        actors[i].state = seed * 0x9E3779B97F4A7C15u + i + 1;
        actors[i].thread = spawn(act, &actors[i]);
    }
    for (unsigned i = 0; i < ACTORS; i++)
        join(actors[i].thread);
    for (unsigned i = 0; i < pair_count && i < PAIRS_MAX; i++)
        end_round(&pairs[i]);
}

static void check_seed(uint64_t number)
{
    seed = number;
    workers = 1 + (unsigned)(seed % 3);
    const struct gs_threads_options options = {.workers = workers, .stack_size = 512 << 10};
    atomic_store(&pair_count, 0);
    for (unsigned i = 0; i < SLOTS; i++)
        atomic_store(&slots[i], NULL);
    CHECK_EQ(gs_threads_run(&options, run_actors, NULL, NULL), 0);
}

TEST(random_calls_return_what_their_files_contain)
{
    const char *wanted = getenv("GOSSAMER_TEST_SEED"), *seconds = getenv("GOSSAMER_TEST_SECONDS");
    uint64_t end_ns = after((seconds ? strtoull(seconds, NULL, 10) : 2) * GS_SECOND);
    uint64_t first = wanted ? strtoull(wanted, NULL, 10) : 1;
    pthread_t watchdog;
    if (GS_TSAN)
        SKIP("a close beside a call on the same number is a race for the thread sanitizer");
    signal(SIGPIPE, SIG_IGN);
    atomic_store(&is_watching, true);
    gs_sys_set_fault(pause_between, NULL);
    CHECK_EQ(pthread_create(&watchdog, NULL, watch_actors, NULL), 0);
    printf("GOSSAMER_TEST_SEED=%llu and the next ones\n", (unsigned long long)first);
    for (uint64_t number = first; number == first || gs_clock_now() < end_ns; number++)
        check_seed(number);
    gs_sys_set_fault(NULL, NULL);
    atomic_store(&is_watching, false);
    pthread_join(watchdog, NULL);
}
