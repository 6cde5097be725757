/* Histories: threads perform random operations on objects, determined by a seed, and each call is
 * recorded with the ticks of a shared counter before and after it. */
#ifndef GS_TESTS_THREAD_HISTORY_H
#define GS_TESTS_THREAD_HISTORY_H

#include "base/sanitized.h"
#include "tests/thread/fixture.h"

/* Under the thread sanitizer, the ticks are relaxed, because they must not order accesses that the
 * library does not order. On x86-64 the ticks still order the calls. */
#if GS_TSAN
#define TICK_ORDER memory_order_relaxed
#else
#define TICK_ORDER memory_order_seq_cst
#endif
#if GS_TSAN || GS_ASAN || !defined(__x86_64__)
enum { STEPS = 100, SEEDS = 2 };
#else
enum { STEPS = 250, SEEDS = 3 };
#endif

enum { EVENTS_MAX = 1 << 14, TICKS_MAX = 4 * EVENTS_MAX, ONCES = 64, TIMEOUT_S = 30 };

enum object {
    CHANNELS,
    SEMAPHORE = 2,
    TOKENS,
    MUTEX,
    RWLOCK,
    BARRIER,
    GROUP,
    ONCE,
    OBJECTS = ONCE + ONCES
};
enum op {
    SEND,
    RECEIVE,
    CLOSE,
    POST,
    WAIT,
    READ,  /* shared */
    WRITE, /* exclusive */
    MEET,
    ADD,
    DONE,
    CALL,
    RUN, /* the function called by gs_once */
};

struct event {
    unsigned begin, end;  /* ticks before and after the call */
    unsigned until, gone; /* ticks before and after the call that unlocks */
    unsigned place;       /* the worker to which the thread is bound; 0: none */
    unsigned object;
    enum op op;
    int result;
    long item;        /* its index if sent */
    unsigned partner; /* for a send: index of the receive + 1 */
};

static struct event events[EVENTS_MAX];
static atomic_uint event_count, ticks;
static uint64_t seed;
static unsigned workers;

/* ---- Recording ---- */

static inline void print_event(const struct event *event)
{
    fprintf(stderr, "    event %td: object %u op %d [%u, %u] until %u: result %d item %ld\n",
            event - events, event->object, event->op, event->begin, event->end, event->until,
            event->result, event->item);
}

#define HOLDS_FOR(condition_, event_, other_)                                                      \
    do {                                                                                           \
        if (!(condition_)) {                                                                       \
            fprintf(stderr, "%s:%d: not true: %s (GOSSAMER_TEST_SEED=%llu, %u workers)\n",         \
                    __FILE__, __LINE__, #condition_, (unsigned long long)seed, workers);           \
            print_event(event_);                                                                   \
            print_event(other_);                                                                   \
            fflush(stdout);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define HOLDS(condition_, event_) HOLDS_FOR(condition_, event_, event_)

static inline unsigned tick(void)
{
    __asm__ volatile("" : : : "memory");
    unsigned now = atomic_fetch_add_explicit(&ticks, 1, TICK_ORDER);
    __asm__ volatile("" : : : "memory");
    return now;
}

static inline struct event *begin(enum op op, unsigned object, unsigned place)
{
    unsigned index = atomic_fetch_add_explicit(&event_count, 1, memory_order_relaxed);
    MUST(index < EVENTS_MAX);
    struct event *event = &events[index];
    *event = (struct event){.op = op, .object = object, .place = place, .item = index};
    event->begin = tick();
    return event;
}

static inline int end(struct event *event, int result)
{
    event->end = event->until = event->gone = tick();
    event->result = result;
    return result;
}

/* The call has returned without an effect. */
static inline bool is_undone(const struct event *event)
{
    return event->result == -ETIMEDOUT || event->result == -ECANCELED;
}

/* ---- Actors ---- */

struct actor {
    struct gs_thread *thread;
    unsigned number, place;
    unsigned calls; /* number of its calls of gs_once */
    uint64_t state;
    bool has_no_deadline; /* its waits have no deadlines */
};

/* Returns a random number below limit (xorshift). */
static inline unsigned draw(struct actor *actor, unsigned limit)
{
    actor->state ^= actor->state << 13;
    actor->state ^= actor->state >> 7;
    actor->state ^= actor->state << 17;
    return (unsigned)(actor->state >> 32) % limit;
}

static inline uint64_t soon(struct actor *actor)
{
    actor->has_no_deadline = false;
    return draw(actor, 4) ? after(draw(actor, 60) * GS_MICROSECOND) : 0;
}

static inline uint64_t late(struct actor *actor)
{
    actor->has_no_deadline = true;
    return draw(actor, 4) ? after(TIMEOUT_S * GS_SECOND) : GS_NEVER;
}

static inline uint64_t any(struct actor *actor)
{
    return draw(actor, 2) ? soon(actor) : late(actor);
}

/* Returns whether the call was successful. */
static inline bool is_done(const struct actor *actor, struct event *event, int result)
{
    end(event, result);
    HOLDS(result != -ETIMEDOUT || !actor->has_no_deadline, event);
    HOLDS(result >= 0 || is_undone(event), event);
    if (result == -ECANCELED) {
        HOLDS(gs_thread_is_canceled(), event);
        gs_thread_set_cancelable(false);
    }
    return result >= 0;
}

static inline void linger(struct actor *actor)
{
    unsigned kind = draw(actor, 8), turns = draw(actor, 4000);
    for (volatile unsigned i = 0; kind < 4 && i < turns; i++)
        ;
    if (kind == 6)
        gs_thread_yield();
    else if (kind == 7)
        (void)gs_thread_sleep(after(draw(actor, 20) * GS_MICROSECOND));
}

#endif
