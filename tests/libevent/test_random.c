/* Random operations on events, also in their callbacks, with several priorities: what is called, in
 * which order, and what is returned. All events are of one descriptor, or of none: between
 * descriptors, the order is the kernel's. */
#include "tests/libevent/transcript.h"
#include "tests/test.h"

#include <event2/event_struct.h>

#define PAIRS 1
#define EVENTS 14
#define PRIORITIES 4

static struct event_base *base;
static int pairs[PAIRS][2];
static struct event *events[EVENTS];
static unsigned is_finalized; /* a bit for each event: its finalizer is to be called */
static uint32_t state;
static int depth, budget, calls;

static unsigned draw(unsigned limit)
{
    state = state * 1664525 + 1013904223;
    return (state >> 8) % limit;
}

static void operate(void);

static void on_event(evutil_socket_t fd, short what, void *number)
{
    (void)fd;
    say("call %d %s\n", (int)(intptr_t)number, names_of(what));
    /* Urgent events may keep others from being called for ever. */
    if (++calls > 40)
        event_base_loopbreak(base);
    for (depth++; depth < 3 && budget > 0 && draw(3); budget--)
        operate();
    depth--;
}

static void on_final(struct event *event, void *number)
{
    (void)event;
    int i = (int)(intptr_t)number;
    say("final %d\n", i);
    is_finalized &= ~(1u << i);
}

static void create(int i)
{
    static const short kinds[] = {EV_READ,
                                  EV_WRITE,
                                  EV_READ | EV_PERSIST,
                                  EV_WRITE | EV_PERSIST,
                                  EV_READ | EV_WRITE,
                                  EV_READ | EV_PERSIST | EV_CLOSED,
                                  EV_PERSIST,
                                  0,
                                  EV_WRITE | EV_PERSIST | EV_FINALIZE};
    short kind = kinds[draw(sizeof kinds / sizeof kinds[0])];
    int fd = kind & (EV_READ | EV_WRITE) ? pairs[draw(PAIRS)][0] : -1;
    events[i] = event_new(base, fd, kind, on_event, (void *)(intptr_t)i);
    CHECK(events[i]);
    say("new %d %s: %d\n", i, names_of(kind), event_priority_set(events[i], (int)draw(PRIORITIES)));
}

static void end(int i)
{
    if (draw(4)) {
        event_free(events[i]);
    } else {
        is_finalized |= 1u << i;
        say("finalize %d\n", event_free_finalize(0, events[i], on_final));
    }
    events[i] = NULL;
}

static void change(int i)
{
    struct event *event = events[i];
    static const struct timeval late = {1000, 0};
    switch (draw(8)) {
    case 0:
        end(i);
        break;
    case 1:
        say("del %d\n", event_del(event));
        break;
    case 2:
        event_active(event, (short)(draw(2) ? EV_READ : EV_WRITE), 1);
        break;
    case 3:
        say("priority %d\n", event_priority_set(event, (int)draw(PRIORITIES + 1)));
        break;
    case 4:
        say("timed %d\n", event_add(event, &late));
        break;
    default:
        say("add %d\n", event_add(event, NULL));
    }
    if (events[i])
        say("pending %d %s\n", i, names_of((short)event_pending(event, -1, NULL)));
}

static void operate(void)
{
    char byte;
    int i = (int)draw(EVENTS), fd = pairs[draw(PAIRS)][draw(2)];
    switch (draw(12)) {
    case 0:
        say("write %zd\n", write(fd, "x", 1));
        break;
    case 1:
        say("read %zd\n", read(fd, &byte, 1));
        break;
    case 2:
        say("break %d\n", draw(4) ? 0 : event_base_loopbreak(base));
        break;
    case 3:
        say("continue %d\n", draw(4) ? 0 : event_base_loopcontinue(base));
        break;
    default:
        if (events[i])
            change(i);
        else if (!(is_finalized & 1u << i))
            create(i);
    }
}

static void run(uint32_t seed)
{
    state = seed;
    base = event_base_new();
    CHECK(base);
    CHECK_EQ(event_base_priority_init(base, PRIORITIES), 0);
    for (int i = 0; i < PAIRS; i++)
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pairs[i]), 0);
    for (int step = 0; step < 120; step++) {
        budget = 8;
        calls = 0;
        operate();
        if (draw(3))
            continue;
        say("loop %d\n", event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK));
        say("events %d, active %d, broken %d\n",
            event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED),
            event_base_get_num_events(base, EVENT_BASE_COUNT_ACTIVE), event_base_got_break(base));
    }
    for (int i = 0; i < EVENTS; i++) {
        if (events[i] && draw(2)) {
            event_free(events[i]);
            events[i] = NULL;
        }
    }
    event_base_free(base);
    for (int i = 0; i < EVENTS; i++) {
        if (events[i])
            event_debug_unassign(events[i]);
        free(events[i]);
        events[i] = NULL;
    }
    for (int i = 0; i < PAIRS; i++) {
        close(pairs[i][0]);
        close(pairs[i][1]);
    }
    is_finalized = 0;
}

TEST(random_operations_do_as_in_libevent)
{
    for (uint32_t seed = 1; seed <= 60; seed++) {
        say("seed %u\n", seed);
        run(seed);
    }
}
