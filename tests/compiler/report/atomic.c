/* A function that must not wait, and does: the compiler says by which calls. */
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((noinline)) void enter(void)
{
    pthread_mutex_lock(&lock);
}

#ifdef WAITS
#define STEP enter
#else
#define STEP leave
#endif

static __attribute__((noinline)) void leave(void)
{
    pthread_mutex_unlock(&lock);
}

static __attribute__((noinline, annotate("gs_atomic"))) void update(void)
{
    STEP();
}

static void *run(void *argument)
{
    enter();
    update();
    return argument;
}

int main(void)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, run, NULL) || pthread_join(thread, NULL);
}
