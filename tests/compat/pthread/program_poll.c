/* Polls of one descriptor, many times: in vain, when it is ready at once, for other events than the
 * polls before, by two threads, at its end, and with a deadline. */
#include "tests/compat/pthread/program.h"

enum { TURNS = 20 };

static int ends[2];
static sem_t may_write;

static void *write_each_turn(void *unused)
{
    for (int i = 0; i < TURNS; i++) {
        while (sem_wait(&may_write))
            ;
        sched_yield();
        if (write(ends[1], "a", 1) != 1)
            return &may_write;
    }
    return unused;
}

static long poll_for(short events, int timeout_ms)
{
    struct pollfd poll_ = {.fd = ends[0], .events = events, .revents = -1};
    int result = poll(&poll_, 1, timeout_ms);
    return result * 1000000L + poll_.revents;
}

static void read_one(void)
{
    char byte = 0;
    SHOW(read(ends[0], &byte, 1));
    SHOW(byte);
}

static void test_waits_of_each_turn(void)
{
    pthread_t writer = start(write_each_turn, NULL);
    for (int i = 0; i < TURNS; i++) {
        sem_post(&may_write);
        SHOW(poll_for(POLLIN, -1));
        read_one();
    }
    SHOW(finish(writer));
}

static void test_ready_at_once(void)
{
    for (int i = 0; i < TURNS; i++) {
        SHOW(write(ends[1], "b", 1));
        SHOW(poll_for(POLLIN | POLLRDNORM | POLLPRI, i % 2 ? -1 : 10000));
        read_one();
        SHOW(poll_for(POLLIN, 1));
    }
}

static void test_other_events(void)
{
    SHOW(poll_for(POLLOUT, -1));
    SHOW(poll_for(POLLIN | POLLOUT, -1));
    SHOW(poll_for(0, 1));
    SHOW(poll_for(POLLIN, 1));
    SHOW(write(ends[1], "c", 1));
    SHOW(poll_for(POLLIN | POLLOUT, -1));
    read_one();
}

static void *poll_in_thread(void *unused)
{
    (void)unused;
    return (void *)poll_for(POLLIN, -1); // NOLINT(performance-no-int-to-ptr)
}

static void test_two_threads(void)
{
    pthread_t first = start(poll_in_thread, NULL), second = start(poll_in_thread, NULL);
    sleep_ms(2);
    SHOW(write(ends[1], "d", 1));
    SHOW(finish(first));
    SHOW(finish(second));
    read_one();
}

static void *poll_in_thread_for_more(void *unused)
{
    (void)unused;
    return (void *)poll_for(POLLIN | POLLRDNORM, -1); // NOLINT(performance-no-int-to-ptr)
}

/* Both see all of what they have asked for. */
static void test_two_threads_for_others(void)
{
    for (int i = 0; i < TURNS; i++) {
        pthread_t first = start(poll_in_thread, NULL);
        if (i % 2)
            sched_yield();
        pthread_t second = start(poll_in_thread_for_more, NULL);
        SHOW(write(ends[1], "g", 1));
        SHOW(finish(first));
        SHOW(finish(second));
        read_one();
    }
}

static void *close_other_end(void *unused)
{
    while (sem_wait(&may_write))
        ;
    close(ends[1]);
    return unused;
}

static void test_end(void)
{
    pthread_t closer = start(close_other_end, NULL);
    SHOW(poll_for(POLLIN, 1));
    sem_post(&may_write);
    SHOW(poll_for(POLLIN | POLLRDHUP, -1) > 1000000);
    SHOW(finish(closer));
    SHOW(poll_for(POLLIN | POLLRDHUP, -1));
    SHOW(poll_for(0, -1));
    close(ends[0]);
    SHOW(poll_for(POLLIN, -1));
}

static void *poll_former_number(void *unused)
{
    int old[2], fresh[2];
    SHOW(pipe(old));
    ends[0] = old[0];
    SHOW(poll_for(POLLIN, 1));
    SHOW(poll_for(POLLIN, 1));
    int again = dup(old[0]);
    close(old[0]);
    SHOW(pipe(fresh));
    SHOW(fresh[0] == old[0]);
    SHOW(write(old[1], "e", 1));
    SHOW(poll_for(POLLIN, 10)); /* the event is of the file that had the number before */
    SHOW(write(fresh[1], "f", 1));
    SHOW(poll_for(POLLIN, -1));
    read_one();
    close(again);
    close(old[1]);
    close(fresh[0]);
    close(fresh[1]);
    return unused;
}

int main(void)
{
    sem_init(&may_write, 0, 0);
    for (int i = 0; i < 2; i++) {
        if (i ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
            return 1;
        test_waits_of_each_turn();
        test_ready_at_once();
        if (!i)
            test_other_events();
        test_two_threads();
        test_two_threads_for_others();
        test_end();
    }
    SHOW(finish(start(poll_former_number, NULL)));
    return 0;
}
