/* An event loop and a kernel thread that computes: a timer prints the progress of the thread, the
 * thread notifies the loop when it is done, and SIGINT ends the search early. */
#include <gossamer/loop.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct search {
    unsigned wanted;
    atomic_uint found;
    atomic_bool is_canceled;
    unsigned last; /* written before gs_async_send, read after its callback */
    struct gs_async done;
};

static bool is_prime(unsigned n)
{
    for (unsigned divisor = 2; divisor * divisor <= n; divisor++)
        if (n % divisor == 0)
            return false;
    return true;
}

static void *search_primes(void *data)
{
    struct search *search = data;
    for (unsigned n = 2; search->found < search->wanted && !search->is_canceled; n++) {
        if (is_prime(n)) {
            search->last = n;
            search->found++;
        }
    }
    gs_async_send(&search->done);
    return NULL;
}

static void on_done(struct gs_async *async)
{
    /* Callbacks that are pending already, such as a tick, are still called. */
    gs_loop_stop(async->watcher.loop);
}

static void on_tick(struct gs_timer *timer)
{
    const struct search *search = timer->watcher.data;
    printf("%u of %u\n", search->found, search->wanted);
    fflush(stdout);
}

static void on_interrupt(struct gs_signal *interrupt)
{
    ((struct search *)interrupt->watcher.data)->is_canceled = true;
}

int main(int argc, char **argv)
{
    struct search search = {.wanted = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100000};
    struct gs_loop *loop;
    struct gs_timer tick;
    struct gs_signal interrupt;
    pthread_t thread;
    if (gs_loop_new(&loop))
        return 1;
    gs_async_init(&search.done, loop, on_done);
    gs_timer_init(&tick, loop, on_tick);
    gs_signal_init(&interrupt, loop, on_interrupt);
    search.done.watcher.data = tick.watcher.data = interrupt.watcher.data = &search;
    gs_async_start(&search.done);
    if (gs_timer_start_repeat(&tick, gs_loop_now(loop), GS_SECOND / 10) ||
        gs_signal_start(&interrupt, SIGINT) ||
        pthread_create(&thread, NULL, search_primes, &search))
        return 1;
    gs_loop_run(loop);
    printf("prime number %u is %u\n", search.found, search.last);
    return pthread_join(thread, NULL);
}
