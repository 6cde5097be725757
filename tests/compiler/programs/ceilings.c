/* Mutexes with ceilings: the thread that has one has its priority. Where the system allows no other
 * policy, locking one fails. */
#include "program.h"

static pthread_mutex_t six, eight;
static int counted;

static void init(pthread_mutex_t *mutex, int ceiling)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_PROTECT);
    pthread_mutexattr_setprioceiling(&attributes, ceiling);
    if (pthread_mutex_init(mutex, &attributes))
        abort();
}

/* Of the thread, and of the kernel thread that runs it. */
static void look(const char *when)
{
    int policy;
    struct sched_param own, now;
    pthread_getschedparam(pthread_self(), &policy, &own);
    syscall(SYS_sched_getparam, syscall(SYS_gettid), &now);
    printf("%s: %d, %d\n", when, own.sched_priority, now.sched_priority);
}

static void *count(void *unused)
{
    struct sched_param parameter = {.sched_priority = 2};
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter);
    for (int i = 0; i < 20; i++) {
        if (pthread_mutex_lock(&six))
            return (void *)1;
        int before = counted;
        usleep(10);
        counted = before + 1;
        pthread_mutex_unlock(&six);
    }
    return unused;
}

static void use_priorities(void)
{
    look("none");
    printf("lock %d\n", pthread_mutex_lock(&six));
    look("six");
    printf("try %d\n", pthread_mutex_trylock(&eight));
    look("both");
    printf("unlock %d\n", pthread_mutex_unlock(&six));
    look("eight");
    struct sched_param parameter = {.sched_priority = 7};
    printf("set %d\n", pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter));
    look("seven");
    printf("too high: %s\n", strerror(pthread_mutex_lock(&six)));
    printf("unlock %d\n", pthread_mutex_unlock(&eight));
    look("none");
}

int main(void)
{
    pthread_t threads[2];
    int ceiling = 0, old = 0;
    struct sched_param parameter = {.sched_priority = 4};
    init(&six, 6);
    init(&eight, 8);
    printf("get %d", pthread_mutex_getprioceiling(&six, &ceiling));
    printf(" %d\n", ceiling);
    int err = pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter);
    printf("policy: %s\n", strerror(err));
    if (!err)
        use_priorities();
    parameter.sched_priority = 0;
    printf("back %d\n", pthread_setschedparam(pthread_self(), SCHED_OTHER, &parameter));
    printf("not real-time: %s\n", strerror(pthread_mutex_lock(&six)));
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, count, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("counted %d\n", counted);
    printf("change %d", pthread_mutex_setprioceiling(&six, 9, &old));
    printf(" from %d", old);
    pthread_mutex_getprioceiling(&six, &ceiling);
    printf(" to %d\n", ceiling);
    printf("invalid: %s\n", strerror(pthread_mutex_setprioceiling(&six, 1000, &old)));
    printf("destroy %d %d\n", pthread_mutex_destroy(&six), pthread_mutex_destroy(&eight));
    return 0;
}
