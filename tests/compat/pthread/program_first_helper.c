/* The first thread is one that the C library creates, for asynchronous input. It wakes those that
 * the program creates later. */
#include "tests/compat/pthread/program.h"

#include <aio.h>

enum { WAITERS = 3 };

static int ends[2];
static char bytes[WAITERS];
static struct aiocb requests[WAITERS];

static void *wait_for_request(void *number)
{
    const struct aiocb *request = &requests[(long)number];
    const struct aiocb *const list[] = {request};
    while (aio_error(request) == EINPROGRESS)
        aio_suspend(list, 1, NULL);
    return (void *)(long)aio_error(request);
}

int main(void)
{
    pthread_t threads[WAITERS];
    SHOW(pipe(ends));
    for (int i = 0; i < WAITERS; i++) {
        requests[i] = (struct aiocb){.aio_fildes = ends[0], .aio_buf = &bytes[i], .aio_nbytes = 1};
        SHOW_ERROR(aio_read(&requests[i]));
    }
    for (long i = 0; i < WAITERS; i++)
        threads[i] = start(wait_for_request, (void *)i);
    sleep_ms(5);
    for (int i = 0; i < WAITERS; i++) {
        SHOW_ERROR(write(ends[1], &"abc"[i], 1));
        sleep_ms(1);
    }
    for (int i = 0; i < WAITERS; i++) {
        void *error;
        pthread_join(threads[i], &error);
        SHOW((long)error);
        SHOW(aio_return(&requests[i]));
    }
    printf("%.*s\n", WAITERS, bytes);
    return 0;
}
