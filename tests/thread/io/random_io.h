/* A model of open files, for random calls of io.h on them. What is written to a file tells whose it
 * is: the stream is a sequence of words, each of which has the number of the stream and its own
 * index. So a byte of another file, one that was lost, and one that came twice are noticed. */
#ifndef GS_TESTS_THREAD_RANDOM_IO_H
#define GS_TESTS_THREAD_RANDOM_IO_H

#include "tests/thread/fixture.h"
#include "thread/schedule/thread.h"

enum { ACTORS = 8, SLOTS = 8, PAIRS_MAX = 256, STREAM_BYTES = 1 << 16, SLACK_S = 30 };

/* The streams first; of these, pipes. */
enum kind { PIPE, FIFO, UNIX, TCP, TERMINAL, EVENTS, REGULAR, LISTENER, KINDS };

/* One direction. Of a pipe, several threads read and write at a time, whole words: then positions
 * are known by their contents. Of other files one does, and each byte has to be the next. */
struct stream {
    uint32_t id;
    bool is_shared;
    atomic_bool is_read, is_written; /* by one thread now */
    atomic_bool has_ended;           /* a read has returned 0 */
    atomic_uint limit;               /* what has been or is being written; counts are of bytes */
    atomic_uint written, read;
    atomic_uchar seen[STREAM_BYTES / 8];
};

/* The descriptor of an open file. is_closing is set before the number is closed, is_shut before the
 * end says that it will send nothing more; then other results are possible. */
struct end {
    int fd;
    enum kind kind;
    struct end *peer;
    struct stream *in, *out;
    atomic_bool is_closing, is_shut, is_reset;
};

struct pair {
    struct end ends[2]; /* a file without another end has the first only */
    struct stream streams[2];
};

/* A thread that makes calls. The record of a call is for the thread that wants to close its
 * descriptor, and for the watchdog. */
struct actor {
    struct gs_thread *thread;
    uint64_t state;
    atomic_bool is_canceled;
    _Atomic(struct end *) end; /* NULL: no call */
    _Atomic(struct gs_thread *) caller;
    _Atomic(const char *) name;
    atomic_uint count;  /* of its calls */
    atomic_uint waited; /* the number of the last call that is known to have waited */
    atomic_ullong deadline_ns;
};

static struct actor actors[ACTORS];
static uint64_t seed;
static unsigned workers;

#define HOLDS(condition_, name_, value_)                                                           \
    do {                                                                                           \
        if (!(condition_)) {                                                                       \
            fprintf(stderr, "%s:%d: not true: %s; %s: %lld (GOSSAMER_TEST_SEED=%llu)\n", __FILE__, \
                    __LINE__, #condition_, name_, (long long)(value_), (unsigned long long)seed);  \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* Returns a random number below limit (xorshift). */
static inline unsigned draw(struct actor *actor, unsigned limit)
{
    actor->state ^= actor->state << 13;
    actor->state ^= actor->state >> 7;
    actor->state ^= actor->state << 17;
    return (unsigned)(actor->state >> 32) % limit;
}

/* ---- Streams ---- */

static inline uint64_t word_at(const struct stream *stream, size_t position)
{
    return (uint64_t)stream->id << 32 | position / 8;
}

static inline void mark(const struct stream *stream, size_t position, void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)bytes)[i] =
            (unsigned char)(word_at(stream, position + i) >> (position + i) % 8 * 8);
}

/* Of a regular file the words come in their order, of a pipe in that of the writers. */
static inline void check_word(struct stream *stream, const char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    size_t index = word & UINT32_MAX;
    HOLDS(word >> 32 == stream->id, "a word of the file", word >> 32);
    HOLDS(index < STREAM_BYTES / 8 && index * 8 < atomic_load(&stream->limit), "a word", index);
    HOLDS(!atomic_exchange(&stream->seen[index], 1), "read twice", index);
}

static inline void check_bytes(struct stream *stream, const char *bytes, size_t n)
{
    char expected[STREAM_BYTES];
    size_t position = atomic_load(&stream->read);
    if (stream->is_shared) {
        HOLDS(n % 8 == 0, "bytes of whole words", n);
        for (size_t i = 0; i < n; i += 8)
            check_word(stream, bytes + i);
    } else {
        HOLDS(position + n <= atomic_load(&stream->limit), "the end of a read", position + n);
        mark(stream, position, expected, n);
        HOLDS(!memcmp(bytes, expected, n), "the bytes at", position);
    }
    atomic_fetch_add(&stream->read, (unsigned)n);
}

static inline bool is_stream(const struct end *end)
{
    return end->kind <= TERMINAL;
}

static inline bool take(atomic_bool *flag)
{
    return !atomic_exchange(flag, true);
}

/* ---- Calls ---- */

/* Returns false if the descriptor is about to be closed. */
static inline bool begin_call(struct actor *actor, struct end *end, const char *name,
                              uint64_t deadline_ns)
{
    atomic_store(&actor->caller, gs_thread_self());
    atomic_store(&actor->name, name);
    atomic_store(&actor->deadline_ns, deadline_ns);
    atomic_fetch_add(&actor->count, 1);
    atomic_store(&actor->end, end);
    if (!atomic_load(&end->is_closing))
        return true;
    atomic_store(&actor->end, NULL);
    return false;
}

static inline void end_call(struct actor *actor)
{
    atomic_store(&actor->end, NULL);
}

/* A call whose thread waits, or has waited, keeps to its file. One that has not looked the number
 * up yet may find another file: gs_close must not be called then. */
static inline bool may_begin(struct actor *actor, const struct end *end)
{
    unsigned count = atomic_load(&actor->count);
    bool may = atomic_load(&actor->end) == end && atomic_load(&actor->waited) != count &&
               !thread_is_waiting(atomic_load(&actor->caller));
    return may && atomic_load(&actor->count) == count;
}

static inline void note_wait(struct actor *actor)
{
    unsigned count = atomic_load(&actor->count);
    bool waits = atomic_load(&actor->end) && thread_is_waiting(atomic_load(&actor->caller));
    if (waits && atomic_load(&actor->count) == count)
        atomic_store(&actor->waited, count);
}

/* A hook of system calls. A worker that polls notes which calls wait. Before each system call of
 * such a call there is time for other workers to close its descriptor, and to reuse the number. */
static inline long pause_between(long number, void *unused)
{
    const struct gs_thread *self = gs_thread_self();
    bool is_poll = number == SYS_epoll_pwait2 || number == SYS_io_uring_enter;
    (void)unused;
    for (unsigned i = 0; i < ACTORS; i++) {
        struct actor *actor = &actors[i];
        bool is_own = self && atomic_load(&actor->caller) == self && atomic_load(&actor->end);
        if (is_poll)
            note_wait(actor);
        else if (is_own && atomic_load(&actor->waited) == atomic_load(&actor->count))
            usleep(50);
    }
    return 0;
}

static inline bool is_gone(const struct end *end)
{
    return !end || atomic_load(&end->is_closing) || atomic_load(&end->is_shut);
}

/* Whether the error can have a reason. */
static inline bool is_possible(const struct actor *actor, struct end *end, ssize_t result)
{
    switch (result) {
    case -ETIMEDOUT:
        return gs_clock_now() >= atomic_load(&actor->deadline_ns);
    case -ECANCELED:
        return atomic_load(&actor->is_canceled);
    case -EBADF:
        return atomic_load(&end->is_closing);
    case -EPIPE:
    case -ECONNRESET:
    case -EIO:
        atomic_store(&end->is_reset, true);
        return is_gone(end->peer) || atomic_load(&end->is_shut);
    default:
        return false;
    }
}

static inline void check_result(const struct actor *actor, struct end *end, ssize_t result)
{
    HOLDS(result >= 0 || is_possible(actor, end, result), atomic_load(&actor->name), result);
}

/* ---- The watchdog ---- */

static atomic_bool is_watching;

static inline void watch_actor(struct actor *actor)
{
    unsigned count = atomic_load(&actor->count);
    uint64_t deadline_ns = atomic_load(&actor->deadline_ns), now_ns = gs_clock_now();
    if (!atomic_load(&actor->end) || now_ns < deadline_ns ||
        now_ns - deadline_ns < SLACK_S * GS_SECOND || !deadline_ns)
        return;
    if (atomic_load(&actor->count) != count)
        return;
    gs_threads_dump(STDERR_FILENO);
    HOLDS(false, atomic_load(&actor->name), actor - actors);
}

/* A wait that does not end ends the program. */
static inline void *watch_actors(void *unused)
{
    while (atomic_load(&is_watching)) {
        for (unsigned i = 0; i < ACTORS; i++)
            watch_actor(&actors[i]);
        usleep(50000);
    }
    return unused;
}

#endif
