/* Names, processors, policies, priorities, ids and clocks of threads. */
#include "tests/compat/pthread/program.h"

#include <dirent.h>
#include <sys/resource.h>

static sem_t go_on, is_ready;
static atomic_int thread_id;

static void *wait_and_show_name(void *unused)
{
    char name[16] = "";
    thread_id = (int)gettid();
    sem_post(&is_ready);
    while (sem_wait(&go_on))
        ;
    SHOW(pthread_getname_np(pthread_self(), name, sizeof name));
    printf("own name %s\n", name);
    return unused;
}

static void read_comm(int tid)
{
    char path[64], text[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", tid);
    int fd = open(path, O_RDONLY);
    long n = read(fd, text, sizeof text - 1);
    printf("comm %s (%ld)\n", text, n);
    close(fd);
}

static void test_names(void)
{
    char name[16] = "";
    SHOW(pthread_setname_np(pthread_self(), "first"));
    pthread_t thread = start(wait_and_show_name, NULL);
    sem_wait(&is_ready);
    SHOW(pthread_getname_np(thread, name, sizeof name));
    printf("inherited %s\n", name);
    SHOW(pthread_setname_np(thread, "second"));
    SHOW(pthread_getname_np(thread, name, sizeof name));
    printf("of the other %s\n", name);
    SHOW(pthread_getname_np(pthread_self(), name, sizeof name));
    printf("of the first %s\n", name);
    SHOW(pthread_setname_np(thread, "a name that is too long"));
    SHOW(pthread_getname_np(thread, name, 3));
    read_comm(thread_id);
    sem_post(&go_on);
    SHOW(finish(thread));
}

/* ---- Processors ---- */

static void show_set(const char *name, const cpu_set_t *set)
{
    printf("%s:", name);
    for (int i = 0; i < 16; i++)
        if (CPU_ISSET((size_t)i, set))
            printf(" %d", i);
    printf("\n");
}

static void *pin(void *processor)
{
    cpu_set_t set;
    int here = (int)(long)processor;
    SHOW(pthread_getaffinity_np(pthread_self(), sizeof set, &set));
    show_set("inherited", &set);
    CPU_ZERO(&set);
    CPU_SET((size_t)here, &set);
    SHOW(pthread_setaffinity_np(pthread_self(), sizeof set, &set));
    bool is_there = true;
    for (int i = 0; i < 100; i++) {
        is_there &= sched_getcpu() == here;
        sched_yield();
    }
    SHOW(is_there);
    CPU_ZERO(&set);
    SHOW(sched_getaffinity(0, sizeof set, &set) == 0);
    show_set("pinned", &set);
    return NULL;
}

static void test_processors(void)
{
    cpu_set_t set;
    pthread_attr_t attributes;
    pthread_t thread;
    SHOW(finish(start(pin, (void *)0)));
    SHOW(finish(start(pin, (void *)1)));
    pthread_getaffinity_np(pthread_self(), sizeof set, &set);
    show_set("of the first", &set);
    CPU_ZERO(&set);
    CPU_SET(1, &set);
    pthread_attr_init(&attributes);
    SHOW(pthread_attr_setaffinity_np(&attributes, sizeof set, &set));
    int err = pthread_create(&thread, &attributes, pin, (void *)1);
    SHOW(pthread_join(thread, NULL));
    SHOW(err);
    CPU_ZERO(&set);
    SHOW(pthread_setaffinity_np(pthread_self(), sizeof set, &set));
    CPU_SET(1000, &set);
    SHOW(pthread_setaffinity_np(pthread_self(), sizeof set, &set));
    thread = start(wait_and_show_name, NULL);
    sem_wait(&is_ready);
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    SHOW(pthread_setaffinity_np(thread, sizeof set, &set));
    CPU_ZERO(&set);
    SHOW(pthread_getaffinity_np(thread, sizeof set, &set));
    show_set("of the other", &set);
    sem_post(&go_on);
    SHOW(finish(thread));
}

/* ---- Policies ---- */

static void show_policy(pthread_t thread)
{
    struct sched_param parameters = {0};
    int policy = -1;
    SHOW(pthread_getschedparam(thread, &policy, &parameters));
    printf("policy %d, priority %d\n", policy, parameters.sched_priority);
}

static void *show_own_policy(void *unused)
{
    struct sched_param parameters = {0};
    show_policy(pthread_self());
    SHOW(sched_getscheduler(0));
    SHOW(sched_getparam(0, &parameters));
    SHOW(parameters.sched_priority);
    return unused;
}

static void create_with(int policy, int priority, int inherit)
{
    struct sched_param parameters = {.sched_priority = priority};
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    SHOW(pthread_attr_setinheritsched(&attributes, inherit));
    SHOW(pthread_attr_setschedpolicy(&attributes, policy));
    SHOW(pthread_attr_setschedparam(&attributes, &parameters));
    int err = pthread_create(&thread, &attributes, show_own_policy, NULL);
    if (!err)
        pthread_join(thread, NULL);
    SHOW(err);
    pthread_attr_destroy(&attributes);
}

static void test_policies(void)
{
    struct sched_param parameters = {.sched_priority = 3};
    show_policy(pthread_self());
    create_with(SCHED_OTHER, 0, PTHREAD_EXPLICIT_SCHED);
    create_with(SCHED_FIFO, 5, PTHREAD_EXPLICIT_SCHED);
    create_with(SCHED_RR, 7, PTHREAD_EXPLICIT_SCHED);
    create_with(SCHED_RR, 7, PTHREAD_INHERIT_SCHED);
    create_with(SCHED_OTHER, 9, PTHREAD_EXPLICIT_SCHED);
    pthread_t thread = start(wait_and_show_name, NULL);
    sem_wait(&is_ready);
    SHOW(pthread_setschedparam(thread, SCHED_FIFO, &parameters));
    show_policy(thread);
    SHOW(pthread_setschedprio(thread, 4));
    show_policy(thread);
    SHOW(pthread_setschedprio(thread, 400));
    SHOW(pthread_setschedparam(thread, 77, &parameters));
    show_policy(pthread_self());
    SHOW(sched_getscheduler(thread_id));
    parameters.sched_priority = 0;
    SHOW(pthread_setschedparam(thread, SCHED_BATCH, &parameters));
    show_policy(thread);
    sem_post(&go_on);
    SHOW(finish(thread));
    /* The kernel may know a thread for a moment after it was joined. */
    while (sched_getscheduler(thread_id) >= 0)
        sleep_ms(1);
    SHOW_ERROR(sched_getscheduler(thread_id));
}

static void *be_nice(void *unused)
{
    SHOW_ERROR(setpriority(PRIO_PROCESS, (id_t)gettid(), 5));
    SHOW_ERROR(getpriority(PRIO_PROCESS, 0));
    SHOW_ERROR(getpriority(PRIO_PROCESS, (id_t)gettid()));
    SHOW_ERROR(getpriority(PRIO_PROCESS, (id_t)getpid()));
    return unused;
}

/* ---- Clocks ---- */

static long milliseconds_of(clockid_t clock)
{
    struct timespec time = {0};
    int err = clock_gettime(clock, &time);
    return err ? -1 : time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void *burn(void *unused)
{
    clockid_t clock;
    pthread_getcpuclockid(pthread_self(), &clock);
    while (milliseconds_of(clock) < 30)
        ;
    SHOW(milliseconds_of(CLOCK_THREAD_CPUTIME_ID) >= 30);
    struct rusage usage;
    SHOW(getrusage(RUSAGE_THREAD, &usage));
    SHOW(usage.ru_utime.tv_sec * 1000 + usage.ru_stime.tv_sec * 1000 +
             (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000 >=
         20);
    return unused;
}

static void test_clocks(void)
{
    clockid_t clock;
    /* Until the first question, time in which the kernel runs others may be counted as well. */
    SHOW(finish(start(burn, NULL)));
    pthread_t idle = start(wait_and_show_name, NULL);
    sem_wait(&is_ready);
    SHOW(finish(start(burn, NULL)));
    SHOW(pthread_getcpuclockid(idle, &clock));
    SHOW(milliseconds_of(clock) >= 0 && milliseconds_of(clock) < 20);
    SHOW(milliseconds_of(CLOCK_PROCESS_CPUTIME_ID) >= 50);
    struct timespec resolution;
    SHOW_ERROR(clock_getres(clock, &resolution));
    sem_post(&go_on);
    SHOW(finish(idle));
    SHOW_ERROR(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &(struct timespec){0, 1000}, NULL));
}

/* ---- Ids ---- */

static void *show_ids(void *unused)
{
    char path[64];
    struct stat stat_of;
    SHOW(gettid() != getpid());
    SHOW(gettid() > 0);
    snprintf(path, sizeof path, "/proc/self/task/%d", (int)gettid());
    SHOW_ERROR(stat(path, &stat_of));
    SHOW_ERROR(access("/proc/thread-self/comm", R_OK));
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)gettid());
    int fd = open(path, O_RDONLY);
    SHOW(fd >= 0);
    close(fd);
    return unused;
}

static void test_ids(void)
{
    SHOW(gettid() == getpid());
    SHOW(finish(start(show_ids, NULL)));
    SHOW_ERROR(syscall(SYS_tgkill, getpid(), gettid(), 0));
    SHOW_ERROR(syscall(SYS_tgkill, getpid(), 0x3ffffff0, 0));
    SHOW_ERROR(syscall(SYS_tgkill, getpid(), -1, 0));
}

int main(void)
{
    sem_init(&go_on, 0, 0);
    sem_init(&is_ready, 0, 0);
    test_names();
    test_processors();
    test_policies();
    SHOW(finish(start(be_nice, NULL)));
    test_clocks();
    test_ids();
    return 0;
}
