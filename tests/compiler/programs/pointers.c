/* Functions of the C library that wait, called through pointers, when no function of the program's
 * own that waits has its address taken. */
#include "program.h"

struct transport {
    ssize_t (*read)(int, void *, size_t);
    ssize_t (*write)(int, const void *, size_t);
    int (*lock)(pthread_mutex_t *);
};

static const struct transport plain = {read, write, pthread_mutex_lock};
static const struct transport *volatile chosen = &plain;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int fds[2];

static void *work(void *argument)
{
    char byte = 0;
    ssize_t n = chosen->read(fds[0], &byte, 1);
    printf("%zd %c\n", n, byte);
    if (chosen->lock(&mutex))
        abort();
    printf("locked\n");
    pthread_mutex_unlock(&mutex);
    return argument;
}

int main(void)
{
    pthread_t thread;
    if (pipe(fds) || pthread_mutex_lock(&mutex) || pthread_create(&thread, NULL, work, NULL))
        return 1;
    usleep(1000);
    if (chosen->write(fds[1], "q", 1) != 1)
        return 1;
    usleep(1000);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    return 0;
}
