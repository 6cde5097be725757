/* Numbers of descriptors that are reused for other files while old events are still added. libevent
 * loses the events of the new file, or delivers them to the old event, too. */
#include "tests/test.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/eventfd.h>

enum kind { SOCKET, PIPE, EVENTFD, KINDS };

/* The number whose file is replaced. */
#define NUMBER 200

static struct event_base *base;
static int peer = -1; /* what is written here can be read from NUMBER */

static void make(enum kind kind, int number, int *ret_peer)
{
    int ends[2];
    if (kind == SOCKET) {
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    } else if (kind == PIPE) {
        CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    } else {
        ends[0] = eventfd(0, EFD_NONBLOCK);
        CHECK(ends[0] >= 0);
        ends[1] = dup(ends[0]);
    }
    CHECK_EQ(dup2(ends[0], number), number);
    close(ends[0]);
    *ret_peer = ends[1];
}

/* Closes the file that has the number, and whatever keeps it. */
static void replace(enum kind kind)
{
    close(NUMBER);
    if (peer >= 0)
        close(peer);
    make(kind, NUMBER, &peer);
}

static void make_readable(void)
{
    CHECK_EQ(write(peer, "\1\0\0\0\0\0\0\0", 8), 8);
}

static void count(evutil_socket_t fd, short events, void *calls)
{
    (void)fd, (void)events;
    ++*(int *)calls;
}

static void loop(void)
{
    CHECK(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
}

static struct event *added(short events, int *calls)
{
    *calls = 0;
    struct event *event = event_new(base, NUMBER, (short)(events | EV_PERSIST), count, calls);
    CHECK(event);
    CHECK_EQ(event_add(event, NULL), 0);
    return event;
}

static void open_all(enum kind kind)
{
    base = event_base_new();
    CHECK(base);
    peer = -1;
    replace(kind);
}

static void close_all(void)
{
    close(NUMBER);
    close(peer);
    event_base_free(base);
}

TEST(the_new_event_of_a_reused_number_gets_all_and_the_old_one_nothing)
{
    static const short interests[] = {EV_READ, EV_WRITE, EV_READ | EV_WRITE, EV_READ | EV_ET};
    int old_calls, new_calls;
    for (int i = 0; i < KINDS * KINDS * 4 * 2; i++) {
        enum kind first = (enum kind)(i % KINDS), second = (enum kind)(i / KINDS % KINDS);
        short interest = interests[i / KINDS / KINDS % 4];
        bool is_seen = i / KINDS / KINDS / 4;
        if (second == PIPE && interest & EV_WRITE)
            continue;
        open_all(first);
        struct event *old = added(EV_READ, &old_calls);
        if (is_seen)
            loop();
        replace(second);
        make_readable();
        struct event *new = added(interest, &new_calls);
        loop();
        loop();
        CHECK_EQ(old_calls, 0);
        CHECK_EQ(new_calls, interest & EV_ET ? 1 : 2);
        CHECK_EQ(event_pending(old, EV_READ, NULL), EV_READ);
        CHECK_EQ(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 2);
        event_free(new);
        loop();
        CHECK_EQ(old_calls, 0);
        event_free(old);
        close_all();
    }
}

TEST(an_old_event_that_is_added_again_gets_events_of_the_new_file)
{
    int old_calls, new_calls;
    open_all(SOCKET);
    struct event *old = added(EV_READ, &old_calls);
    loop();
    replace(SOCKET);
    make_readable();
    struct event *new = added(EV_READ, &new_calls);
    loop();
    CHECK_EQ(old_calls, 0);
    CHECK_EQ(event_add(old, NULL), 0);
    loop();
    CHECK_EQ(old_calls, 1);
    CHECK_EQ(new_calls, 2);
    CHECK_EQ(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 2);
    event_free(old);
    event_free(new);
    close_all();
}

TEST(an_event_that_is_added_again_does_not_bring_the_old_one_along)
{
    int old_calls, writer_calls;
    open_all(SOCKET);
    struct event *old = added(EV_READ, &old_calls);
    struct event *writer = added(EV_WRITE, &writer_calls);
    loop();
    CHECK_EQ(writer_calls, 1);
    CHECK_EQ(event_del(writer), 0);
    loop();
    replace(SOCKET);
    make_readable();
    CHECK_EQ(event_add(writer, NULL), 0);
    loop();
    loop();
    CHECK_EQ(writer_calls, 3);
    CHECK_EQ(old_calls, 0);
    event_free(old);
    event_free(writer);
    close_all();
}

TEST(deleting_another_event_does_not_register_the_old_one_for_the_new_file)
{
    int old_calls, writer_calls;
    open_all(SOCKET);
    struct event *old = added(EV_READ, &old_calls);
    struct event *writer = added(EV_WRITE, &writer_calls);
    loop();
    replace(SOCKET);
    make_readable();
    event_free(writer);
    loop();
    loop();
    CHECK_EQ(old_calls, 0);
    event_free(old);
    close_all();
}

TEST(a_duplicate_of_the_old_file_does_not_reach_the_new_event)
{
    int old_calls, new_calls;
    open_all(SOCKET);
    struct event *old = added(EV_READ, &old_calls);
    loop();
    int duplicate = dup(NUMBER), old_peer = peer;
    peer = -1;
    replace(SOCKET);
    struct event *new = added(EV_READ, &new_calls);
    CHECK_EQ(write(old_peer, "x", 1), 1);
    loop();
    loop();
    CHECK_EQ(new_calls, 0);
    make_readable();
    loop();
    CHECK_EQ(new_calls, 1);
    CHECK_EQ(old_calls, 0);
    event_free(old);
    event_free(new);
    close(duplicate);
    close(old_peer);
    close_all();
}

TEST(strays_are_deleted_with_their_base)
{
    int old_calls, new_calls;
    open_all(SOCKET);
    struct event *old = added(EV_READ, &old_calls);
    loop();
    replace(SOCKET);
    struct event *new = added(EV_READ, &new_calls);
    loop();
    close_all();
    CHECK_EQ(event_initialized(old), 1);
    free(old);
    free(new);
}

/* ---- A model: who gets what, after random operations ---- */

#define NUMBERS 4
#define EVENTS 12

struct numbered {
    int file, peer; /* 0: closed */
    bool is_readable, is_replaced, has_again;
};

struct owned {
    struct event event;
    int file; /* 0: not added */
    int index, calls;
    short interest;
};

static struct numbered numbers[NUMBERS];
static struct owned owned[EVENTS];
static int last_file;

static void close_number(struct numbered *number)
{
    if (!number->file)
        return;
    close(NUMBER + (int)(number - numbers));
    close(number->peer);
    *number = (struct numbered){.is_replaced = number->is_replaced, .has_again = number->has_again};
}

static void replace_number(struct numbered *number)
{
    if (number->is_replaced || number->has_again)
        return;
    close_number(number);
    make((enum kind)(rand() % KINDS), NUMBER + (int)(number - numbers), &number->peer);
    number->file = ++last_file;
    number->is_replaced = true;
}

static void write_number(struct numbered *number)
{
    if (!number->file || number->is_readable)
        return;
    CHECK_EQ(write(number->peer, "\1\0\0\0\0\0\0\0", 8), 8);
    number->is_readable = true;
}

static void add_owned(struct owned *of)
{
    bool is_again = of->interest && rand() % 2;
    struct numbered *number = &numbers[of->index];
    CHECK_EQ(event_del(&of->event), 0);
    if (!is_again) {
        of->index = rand() % NUMBERS;
        of->interest = rand() % 3 ? EV_READ : EV_READ | EV_WRITE;
        number = &numbers[of->index];
        CHECK_EQ(event_assign(&of->event, base, NUMBER + of->index,
                              (short)(of->interest | EV_PERSIST), count, &of->calls),
                 0);
    }
    of->file = 0;
    number->has_again = true;
    if (number->file && !event_add(&of->event, NULL))
        of->file = number->file;
}

static void check_calls(void)
{
    for (struct owned *of = owned; of < owned + EVENTS; of++)
        of->calls = 0;
    loop();
    for (struct owned *of = owned; of < owned + EVENTS; of++) {
        const struct numbered *number = &numbers[of->index];
        bool is_there = of->file && of->file == number->file;
        if (is_there && number->is_readable)
            CHECK_EQ(of->calls, 1);
        else if (!is_there || of->interest == EV_READ)
            CHECK_EQ(of->calls, 0);
    }
    for (int i = 0; i < NUMBERS; i++)
        numbers[i].is_replaced = numbers[i].has_again = false;
}

TEST(random_operations_reach_exactly_the_owners_of_the_files)
{
    base = event_base_new();
    CHECK(base);
    srand(1);
    for (int i = 0; i < EVENTS; i++)
        CHECK_EQ(event_assign(&owned[i].event, base, -1, 0, count, &owned[i].calls), 0);
    for (int i = 0; i < 60000; i++) {
        struct owned *of = &owned[rand() % EVENTS];
        switch (rand() % 8) {
        case 0:
            replace_number(&numbers[rand() % NUMBERS]);
            break;
        case 1:
            close_number(&numbers[rand() % NUMBERS]);
            break;
        case 2:
            CHECK_EQ(event_del(&of->event), 0);
            of->file = 0;
            break;
        case 3:
        case 4:
            write_number(&numbers[rand() % NUMBERS]);
            break;
        case 5:
            check_calls();
            break;
        default:
            add_owned(of);
        }
    }
    event_base_free(base);
    for (int i = 0; i < NUMBERS; i++)
        close_number(&numbers[i]);
}
