/* What the C library and the processor keep for each thread: the locale, h_errno, rounding and
 * exceptions of numbers. And threads that constructors and destructors of the program start. */
#include "program.h"

#include <fenv.h>
#include <locale.h>
#include <netdb.h>

/* ---- Before main, and after it ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t posted;
static pthread_t early;
static int count;

static void *add(void *to_wait)
{
    pthread_mutex_lock(&mutex);
    usleep(10);
    count += !to_wait;
    pthread_mutex_unlock(&mutex);
    if (to_wait)
        sem_wait(&posted);
    return &count;
}

static void add_in_thread(const char *when)
{
    pthread_t thread;
    void *result = NULL;
    pthread_create(&thread, NULL, add, NULL);
    pthread_join(thread, &result);
    printf("%s: %d, %d\n", when, count, result == &count);
    fflush(stdout);
}

__attribute__((constructor(200))) static void begin_later(void)
{
    add_in_thread("second constructor");
}

__attribute__((constructor(150))) static void begin(int number, char **arguments)
{
    printf("%d, %d\n", number, arguments[1] == NULL);
    add_in_thread("constructor");
    sem_init(&posted, 0, 0);
    pthread_create(&early, NULL, add, &posted);
}

__attribute__((destructor)) static void end(void)
{
    add_in_thread("destructor");
}

static void end_first(void)
{
    add_in_thread("atexit");
}

/* ---- Two or more threads of one worker, in turns ---- */

enum { THREADS = 4, TURNS = 5 };
static const int ways[THREADS] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST};
static volatile double one = 1, three = 3, zero = 0;
static pthread_barrier_t barrier;
static locale_t locale;
static char lines[THREADS][160];

static void *stay(void *argument)
{
    const int i = (int)(long)argument;
    volatile double infinite = 0;
    fesetround(ways[i]);
    feclearexcept(FE_ALL_EXCEPT);
    if (i % 2)
        infinite = one / zero;
    if (i < 2)
        uselocale(locale);
    h_errno = i + 1;
    for (int turn = 0; turn < TURNS; turn++) {
        pthread_barrier_wait(&barrier);
        sched_yield();
        usleep(20);
    }
    snprintf(lines[i], sizeof lines[i], "rounds %d (%.20g), divided %d (%g), locale %d, h_errno %d",
             fegetround() == ways[i], one / three, fetestexcept(FE_DIVBYZERO) != 0, infinite,
             uselocale(NULL) == locale, h_errno);
    return NULL;
}

/* It begins as the thread that has created it rounds, and with the locale of the process. */
static void *look(void *unused)
{
    printf("new: %d %d\n", fegetround() == FE_UPWARD, uselocale(NULL) == LC_GLOBAL_LOCALE);
    return unused;
}

static void *create(void *unused)
{
    pthread_t thread;
    fesetround(FE_UPWARD);
    uselocale(locale);
    pthread_create(&thread, NULL, look, NULL);
    pthread_join(thread, NULL);
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    locale = newlocale(LC_ALL_MASK, "C", NULL);
    sem_post(&posted);
    pthread_join(early, NULL);
    atexit(end_first);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, stay, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        puts(lines[i]);
    pthread_create(&threads[0], NULL, create, NULL);
    pthread_join(threads[0], NULL);
    printf("first: %d %d\n", fegetround() == FE_TONEAREST, uselocale(NULL) == LC_GLOBAL_LOCALE);
    return 0;
}
