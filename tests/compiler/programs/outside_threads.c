/* Kernel threads that the C library creates for a timer: they have a number of their own, can be
 * canceled, and do their cleanups. */
#include "program.h"

static sem_t ready, cleaned;
static pthread_t outside;
static atomic_int done, old_state = -1;

static void clean(void *number)
{
    done = done * 10 + (int)(long)number;
    if ((long)number == 1)
        sem_post(&cleaned);
}

static __attribute__((noinline)) void wait_for_ever(void)
{
    const struct timespec second = {.tv_sec = 1};
    pthread_cleanup_push(clean, (void *)2);
    sem_post(&ready);
    for (;;)
        nanosleep(&second, NULL);
    pthread_cleanup_pop(0);
}

static void run(union sigval value)
{
    int old, ignored;
    (void)value;
    outside = pthread_self();
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    old_state = old;
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &ignored);
    pthread_cleanup_push(clean, (void *)1);
    pthread_cleanup_push(clean, (void *)3);
    pthread_cleanup_pop(1);
    wait_for_ever();
    pthread_cleanup_pop(0);
}

int main(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = run};
    const struct itimerspec soon = {.it_value = {0, 1000000}};
    timer_t timer;
    sem_init(&ready, 0, 0);
    sem_init(&cleaned, 0, 0);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &soon, NULL))
        abort();
    sem_wait(&ready);
    printf("another one %d, state %d\n", !pthread_equal(outside, pthread_self()), old_state);
    printf("cancel %d\n", pthread_cancel(outside));
    sem_wait(&cleaned);
    printf("cleaned %d\n", done);
    timer_delete(timer);
    return 0;
}
