/* Handlers of signals to threads that wait for a descriptor, which wait themselves, and in which
 * their thread is canceled. */
#include "mask.h"
#include "program.h"

static int outer[2], inner[2];
static atomic_int is_reading, in_handler, cleaned;
static pthread_t target;

static void clean(void *number)
{
    cleaned = cleaned * 10 + (int)(long)number;
}

static __attribute__((noinline)) void read_inner(void)
{
    char byte = 0;
    pthread_cleanup_push(clean, (void *)1);
    in_handler = 1;
    ssize_t n = read(inner[0], &byte, 1);
    printf("handler: read %zd %c, self %d, blocked %d\n", n, byte,
           pthread_equal(pthread_self(), target), is_blocked(SIGUSR1));
    pthread_cleanup_pop(0);
}

static void handle(int number)
{
    int err = errno;
    pthread_cleanup_push(clean, (void *)2);
    read_inner();
    pthread_cleanup_pop(0);
    errno = err + (number != SIGUSR1);
}

static void set_handler(int flags)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
}

static __attribute__((noinline)) void read_outer(void)
{
    char byte = 0;
    pthread_cleanup_push(clean, (void *)3);
    target = pthread_self();
    is_reading = 1;
    ssize_t n = read(outer[0], &byte, 1);
    int err = n < 0 ? errno : 0;
    printf("read %zd %d, blocked %d\n", n, err == EINTR, is_blocked(SIGUSR1));
    pthread_cleanup_pop(0);
}

static void *wait_for_byte(void *unused)
{
    read_outer();
    return unused;
}

/* The thread is about to read, or reads already. */
static void reach_handler(pthread_t thread)
{
    while (!is_reading)
        usleep(500);
    usleep(20000);
    is_reading = 0;
    pthread_kill(thread, SIGUSR1);
    while (!in_handler)
        usleep(500);
    in_handler = 0;
}

static void return_to_read(int flags)
{
    pthread_t thread;
    set_handler(flags);
    pthread_create(&thread, NULL, wait_for_byte, NULL);
    reach_handler(thread);
    puts("it waits in its handler");
    (void)!write(inner[1], "i", 1);
    if (flags & SA_RESTART)
        (void)!write(outer[1], "o", 1);
    pthread_join(thread, NULL);
}

static void cancel_in_handler(void)
{
    pthread_t thread;
    void *result;
    set_handler(0);
    cleaned = 0;
    pthread_create(&thread, NULL, wait_for_byte, NULL);
    reach_handler(thread);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("canceled %d, cleaned %d\n", result == PTHREAD_CANCELED, cleaned);
}

/* A variable of no constant size: the thread waits on a stack. */
static void *wait_on_stack(void *size)
{
    char bytes[(long)size];
    bytes[0] = 0;
    read_outer();
    return bytes[0] ? size : NULL;
}

static void on_stack(void)
{
    pthread_t thread;
    set_handler(0);
    pthread_create(&thread, NULL, wait_on_stack, (void *)33);
    reach_handler(thread);
    (void)!write(inner[1], "s", 1);
    pthread_join(thread, NULL);
}

static void *signal_first(void *first)
{
    reach_handler(*(pthread_t *)first);
    (void)!write(inner[1], "f", 1);
    return NULL;
}

static void to_first(void)
{
    pthread_t thread, first = pthread_self();
    set_handler(0);
    pthread_create(&thread, NULL, signal_first, &first);
    read_outer();
    pthread_join(thread, NULL);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (pipe(outer) || pipe(inner))
        abort();
    return_to_read(0);
    return_to_read(SA_RESTART);
    cancel_in_handler();
    on_stack();
    to_first();
    return 0;
}
