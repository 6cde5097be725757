/* What threads are created with: stacks, CPUs, scheduling, and the default of all that. */
#include "program.h"

#define STACK (((size_t)3 << 20) + 4096)

static __thread int _Alignas(512) aligned = 5;
static int first_cpu = -1;
static size_t wanted; /* glibc may have a larger one left of another thread */

static int is_only(const cpu_set_t *cpus, int cpu)
{
    return CPU_COUNT(cpus) == 1 && CPU_ISSET(cpu, cpus);
}

/* What the thread has, by each way to ask for it. */
static void *look(void *name)
{
    pthread_attr_t has;
    void *lowest;
    size_t size, guard_size;
    int inherits, policy, local = 0;
    struct sched_param parameter;
    cpu_set_t cpus, same, of_attributes;
    if (pthread_getattr_np(pthread_self(), &has))
        abort();
    pthread_attr_getstack(&has, &lowest, &size);
    pthread_attr_getguardsize(&has, &guard_size);
    pthread_attr_getinheritsched(&has, &inherits);
    pthread_attr_getschedpolicy(&has, &policy);
    pthread_attr_getaffinity_np(&has, sizeof of_attributes, &of_attributes);
    pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus);
    sched_getaffinity(0, sizeof same, &same);
    pthread_attr_destroy(&has);
    printf("%s: size %d, inside %d, guard %zu, explicit %d, policy %d", (char *)name,
           size >= wanted,
           (char *)&local >= (char *)lowest && (char *)&local < (char *)lowest + size, guard_size,
           inherits == PTHREAD_EXPLICIT_SCHED, policy);
    pthread_getschedparam(pthread_self(), &policy, &parameter);
    printf(" %d %d, priority %d, same CPUs %d %d, pinned %d, there %d\n", policy,
           sched_getscheduler(0), parameter.sched_priority, CPU_EQUAL(&cpus, &same),
           CPU_EQUAL(&cpus, &of_attributes), is_only(&cpus, first_cpu),
           !is_only(&cpus, first_cpu) || sched_getcpu() == first_cpu);
    return NULL;
}

static int run(const pthread_attr_t *attributes, const char *name)
{
    pthread_t thread;
    fflush(stdout);
    int err = pthread_create(&thread, attributes, look, (void *)name);
    if (err)
        printf("%s: %s\n", name, strerror(err));
    else
        pthread_join(thread, NULL);
    return err;
}

static void of_stacks(void)
{
    pthread_attr_t attributes;
    char *stack = aligned_alloc(4096, STACK);
    pthread_attr_init(&attributes);
    run(NULL, "none");
    run(&attributes, "usual");
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_attr_setguardsize(&attributes, 65536);
    wanted = STACK;
    run(&attributes, "size and guard");
    pthread_attr_setguardsize(&attributes, 0);
    run(&attributes, "no guard");
    pthread_attr_setstack(&attributes, stack, STACK);
    run(&attributes, "its own");
    pthread_attr_destroy(&attributes);
    free(stack);
}

static void of_cpus(void)
{
    wanted = 0;
    pthread_attr_t attributes;
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    for (int i = 0; i < CPU_SETSIZE && first_cpu < 0; i++)
        if (CPU_ISSET(i, &all))
            first_cpu = i;
    CPU_ZERO(&one);
    CPU_SET(first_cpu, &one);
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
    run(&attributes, "pinned");
    sched_getaffinity(0, sizeof one, &one);
    printf("first: as before %d\n", CPU_EQUAL(&one, &all));
    CPU_ZERO(&one);
    CPU_SET(CPU_SETSIZE - 1, &one);
    pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
    run(&attributes, "no such CPU");
    printf("set: %s\n", strerror(pthread_setaffinity_np(pthread_self(), sizeof one, &one)));
    printf("too small: %s\n", strerror(pthread_getaffinity_np(pthread_self(), 0, &one)));
    CPU_ZERO(&one);
    CPU_SET(first_cpu, &one);
    printf("sched %d\n", sched_setaffinity(0, sizeof one, &one));
    run(NULL, "inherited");
    pthread_setaffinity_np(pthread_self(), sizeof all, &all);
    run(NULL, "no more");
    pthread_attr_destroy(&attributes);
}

/* Whether other policies are allowed is up to the system, and both answer the same. */
static void of_scheduling(void)
{
    pthread_attr_t attributes;
    struct sched_param parameter = {.sched_priority = 1};
    pthread_attr_init(&attributes);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    run(&attributes, "explicit");
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    pthread_attr_setschedparam(&attributes, &parameter);
    int err = run(&attributes, "real-time");
    pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
    run(&attributes, "invalid");
    printf("set: %d", pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter) == err);
    printf(" %s\n", strerror(pthread_setschedparam(pthread_self(), SCHED_OTHER, &parameter)));
    run(NULL, "inherits");
    parameter.sched_priority = 0;
    printf("back %d\n", pthread_setschedparam(pthread_self(), SCHED_OTHER, &parameter));
    printf("priority %s\n", strerror(pthread_setschedprio(pthread_self(), 1)));
    pthread_attr_destroy(&attributes);
}

static void of_default(void)
{
    pthread_attr_t attributes, usual, is;
    size_t size;
    sigset_t mask;
    pthread_getattr_default_np(&usual);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 2 * STACK);
    pthread_attr_setguardsize(&attributes, 8192);
    printf("default %d\n", pthread_setattr_default_np(&attributes));
    wanted = 2 * STACK;
    run(NULL, "by default");
    pthread_getattr_default_np(&is);
    pthread_attr_getstacksize(&is, &size);
    printf("size %zu, mask %d\n", size, pthread_attr_getsigmask_np(&is, &mask));
    pthread_attr_destroy(&is);
    pthread_attr_setstack(&attributes, &attributes, STACK);
    printf("with a stack: %s\n", strerror(pthread_setattr_default_np(&attributes)));
    printf("back %d\n", pthread_setattr_default_np(&usual));
    wanted = 0;
    run(NULL, "as before");
}

static void *look_at_variable(void *name)
{
    printf("%s: %d, aligned %d\n", (char *)name, aligned++, (uintptr_t)&aligned % 512 == 0);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    setvbuf(stdout, NULL, _IOLBF, 0);
    look("first");
    of_stacks();
    of_cpus();
    of_scheduling();
    of_default();
    look_at_variable("first");
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, look_at_variable, "thread");
        pthread_join(threads[i], NULL);
    }
    return 0;
}
