/* How threads end: return, exit, cancellation; with cleanups and values; detached; after main. */
#include "program.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_key_t key;
static int pipes[2];
static atomic_int ended;
static _Atomic int is_canceled;

static void note(void *text)
{
    printf("cleanup of %s\n", (char *)text);
}

static void note_slowly(void *text)
{
    usleep(10);
    printf("slow cleanup of %s\n", (char *)text);
}

static void unlock(void *mutex)
{
    pthread_mutex_unlock(mutex);
}

static void leave(int depth)
{
    char here[100];
    memset(here, depth, sizeof here);
    if (depth)
        leave(depth - 1);
    else
        pthread_exit((void *)5L);
    printf("%d\n", here[5]);
}

static void *exits(void *unused)
{
    pthread_cleanup_push(note, "exits");
    pthread_cleanup_push(note_slowly, "exits");
    sched_yield();
    leave(5);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return unused;
}

static void *returns(void *unused)
{
    pthread_setspecific(key, "a value");
    pthread_cleanup_push(note, "returns, popped");
    sched_yield();
    pthread_cleanup_pop(1);
    pthread_cleanup_push(note, "returns, not run");
    pthread_cleanup_pop(0);
    return unused;
}

static void *reads(void *unused)
{
    char byte;
    pthread_cleanup_push(note, "reads");
    if (read(pipes[0], &byte, 1) < 0)
        puts("not reached");
    pthread_cleanup_pop(0);
    return unused;
}

static void *waits(void *unused)
{
    pthread_mutex_lock(&lock);
    pthread_cleanup_push(unlock, &lock);
    for (;;)
        pthread_cond_wait(&never, &lock);
    pthread_cleanup_pop(0);
    return unused;
}

static void *refuses(void *unused)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    while (!is_canceled)
        usleep(100);
    puts("still here");
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pthread_testcancel();
    puts("not reached");
    return unused;
}

static void *detached(void *unused)
{
    sched_yield();
    pthread_mutex_lock(&lock);
    ended++;
    pthread_mutex_unlock(&lock);
    return unused;
}

static void *after_main(void *unused)
{
    usleep(2000);
    printf("after main, %d ended\n", ended);
    return unused;
}

static void run(const char *name, void *(*fn)(void *), int cancel)
{
    pthread_t thread;
    void *result = NULL;
    is_canceled = 0;
    pthread_create(&thread, NULL, fn, NULL);
    if (cancel) {
        usleep(1000);
        pthread_cancel(thread);
        is_canceled = 1;
    }
    int err = pthread_join(thread, &result);
    printf("%s: %d %s%ld\n", name, err, result == PTHREAD_CANCELED ? "canceled " : "",
           (long)result);
}

static void destroy(void *value)
{
    printf("destroy %s\n", (char *)value);
}

int main(void)
{
    pthread_t thread;
    if (pipe(pipes) || pthread_key_create(&key, destroy))
        return 1;
    run("exits", exits, 0);
    run("returns", returns, 0);
    run("reads", reads, 1);
    run("waits", waits, 1);
    run("refuses", refuses, 1);
    printf("lock: %d\n", pthread_mutex_trylock(&lock));
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 5; i++) {
        pthread_create(&thread, NULL, detached, NULL);
        pthread_detach(thread);
    }
    printf("self: %d\n", pthread_join(pthread_self(), NULL) == EDEADLK);
    while (ended < 5)
        usleep(100);
    pthread_create(&thread, NULL, after_main, NULL);
    pthread_exit(NULL);
}
