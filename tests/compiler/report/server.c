/* A server that shows all that a report has; docs/guide-cc.md reads its report. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int served;

static __attribute__((noinline)) ssize_t receive(int fd, char *bytes, size_t size)
{
    size_t n = 0;
    while (n < size) {
        ssize_t got = read(fd, bytes + n, size - n);
        if (got <= 0)
            return got;
        n += (size_t)got;
        if (bytes[n - 1] == '\n')
            break;
    }
    return (ssize_t)n;
}

static __attribute__((noinline)) void count(void)
{
    pthread_mutex_lock(&lock);
    served++;
    pthread_mutex_unlock(&lock);
}

static void *serve(void *argument)
{
    int fd = (int)(long)argument;
    char line[512];
    ssize_t n;
    while ((n = receive(fd, line, sizeof line)) > 0 && write(fd, line, (size_t)n) == n)
        count();
    close(fd);
    return NULL;
}

/* Recursion: there is no bound. */
static __attribute__((noinline)) int descend(int depth)
{
    int n = depth ? descend(depth - 1) + 1 : 0;
    usleep(1);
    return n;
}

/* Variadic functions run on a stack. */
static __attribute__((noinline)) void say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    pthread_mutex_lock(&lock);
    vprintf(format, list);
    pthread_mutex_unlock(&lock);
    va_end(list);
}

static __attribute__((noinline)) void summarise(const char *depth)
{
    say("depth %s\n", depth);
}

static void *walk(void *argument)
{
    int depth = descend((int)(long)argument);
    char text[8];
    snprintf(text, sizeof text, "%d", depth);
    summarise(text);
    return NULL;
}

static void *compute(void *argument)
{
    return argument;
}

int main(void)
{
    int pair[2];
    char answer[6] = "";
    pthread_t server, walker, other;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        return 1;
    pthread_create(&server, NULL, serve, (void *)(long)pair[1]);
    pthread_create(&walker, NULL, walk, (void *)3L);
    pthread_create(&other, NULL, compute, NULL);
    write(pair[0], "hello\n", 6);
    receive(pair[0], answer, sizeof answer);
    close(pair[0]);
    pthread_join(server, NULL);
    pthread_join(walker, NULL);
    pthread_join(other, NULL);
    printf("%d line: %.5s\n", served, answer);
    return 0;
}
