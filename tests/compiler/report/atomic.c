/* Functions that must not wait, and some that do: the compiler says by which calls. */
#include <gossamer/cc.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define SEPARATE __attribute__((noinline))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

SEPARATE static void enter(void)
{
    pthread_mutex_lock(&lock);
}

SEPARATE static void leave(void)
{
    pthread_mutex_unlock(&lock);
}

/* Never called in the function: its own calls are part of it there. */
static inline __attribute__((always_inline)) void enter_inline(void)
{
    pthread_mutex_lock(&lock);
}

static int compare(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

SEPARATE static int compare_slowly(const void *left, const void *right)
{
    usleep(1);
    return compare(left, right);
}

static void (*step)(void) = leave;
static int (*order)(const void *, const void *) = compare;

/* Its address is taken, so that a pointer of its type may be it. */
static void choose(int is_slow)
{
#ifdef BY_POINTER
    step = is_slow ? enter : leave;
#endif
    order = is_slow ? compare_slowly : compare;
}

GS_ATOMIC SEPARATE static void update(void)
{
#if defined(WAITS)
    enter();
#elif defined(INLINE)
    enter_inline();
#elif defined(FOREIGN)
    int numbers[] = {2, 1};
    qsort(numbers, 2, sizeof *numbers, order);
#elif defined(LOOP)
    static volatile int flag = 1;
    while (!flag) {
    }
#else
    step();
#endif
}

static void *run(void *argument)
{
    update();
    return argument;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    (void)argv;
    choose(argc > 1);
    return pthread_create(&thread, NULL, run, NULL) || pthread_join(thread, NULL);
}
