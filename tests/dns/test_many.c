/* Many look-ups at the same time, by several workers. */
#define WITH_GETADDRINFO
#include "tests/dns/fixture.h"

#include <dirent.h>

enum { MANY = 10000, JOINED = 300 };

static int files(void)
{
    int count = 0;
    DIR *open_files = opendir("/proc/self/fd");
    MUST(open_files);
    while (readdir(open_files))
        count++;
    closedir(open_files);
    return count;
}

static int kernel_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    MUST(tasks);
    while (readdir(tasks))
        count++;
    closedir(tasks);
    return count;
}

static void *find_number(void *number_)
{
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    uint32_t number = (uint32_t)(uintptr_t)number_;
    struct addrinfo *found = NULL;
    char name[32];
    snprintf(name, sizeof name, "n%u.held.test", number);
    int err = gs_resolve(name, "80", &hints, GS_NEVER, &found);
    if (err)
        return (void *)(intptr_t)err;
    MUST_EQ(ntohl(((struct sockaddr_in *)found->ai_addr)->sin_addr.s_addr), 10u << 24 | number);
    freeaddrinfo(found);
    return NULL;
}

static void wait_for(atomic_uint *count, unsigned least)
{
    while (atomic_load(count) < least)
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
}

/* Every third thread gives up. What it waited for is answered all the same. */
static void *find_many(void *unused)
{
    static struct gs_thread *threads[MANY];
    int files_before = files(), threads_before = kernel_threads();
    for (uintptr_t i = 0; i < MANY; i++)
        threads[i] = spawn(find_number, (void *)i);
    wait_for(&server.held_queries, MANY);
    MUST(files() - files_before < 200);
    MUST(kernel_threads() - threads_before < 10); /* extra workers of the monitor */
    for (unsigned i = 0; i < MANY; i += 3)
        gs_thread_cancel(threads[i]);
    for (unsigned i = 0; i < MANY; i += 3)
        MUST_EQ((intptr_t)join(threads[i]), -ECANCELED);
    atomic_store(&server.may_answer_held, true);
    for (unsigned i = 0; i < MANY; i++)
        if (i % 3)
            MUST_EQ((intptr_t)join(threads[i]), 0);
    MUST_EQ(atomic_load(&other_calls), 0);
    return unused;
}

TEST(ten_thousand_look_ups_wait_for_their_own_answers_with_few_files)
{
    run_dns(1, usual, find_many);
    run_dns(3, usual, find_many);
}

static atomic_uint started;

static void *find_held(void *unused)
{
    (void)unused;
    atomic_fetch_add(&started, 1);
    return (void *)(intptr_t)find_name("held.test");
}

static void *find_together(void *unused)
{
    struct gs_thread *threads[JOINED];
    atomic_store(&started, 0);
    for (int i = 0; i < JOINED; i++)
        threads[i] = spawn(find_held, NULL);
    wait_for(&started, JOINED);
    wait_for(&server.held_queries, 2);
    atomic_store(&server.may_answer_held, true);
    for (int i = 0; i < JOINED; i++)
        MUST_EQ((intptr_t)join(threads[i]), 0);
    return unused;
}

TEST(identical_look_ups_in_progress_are_asked_once)
{
    run_dns(1, usual, find_together);
    run_dns(3, usual, find_together);
}

/* As the threads leave, the answers come. */
static void *leave_and_join(void *number)
{
    unsigned n = (unsigned)(uintptr_t)number;
    char name[32];
    for (unsigned i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "n%u.test", (n + i) % 7);
        int err = find_until(name, after((n * 7 + i) % 16 * GS_MILLISECOND / 8));
        MUST(!err || err == -ETIMEDOUT);
    }
    return NULL;
}

static void *race_with_answers(void *unused)
{
    struct gs_thread *threads[100];
    for (uintptr_t i = 0; i < 100; i++)
        threads[i] = spawn(leave_and_join, (void *)i);
    for (int i = 0; i < 100; i++)
        join(threads[i]);
    return unused;
}

TEST(threads_of_several_workers_join_and_leave_as_answers_come)
{
    run_dns(1, usual, race_with_answers);
    run_dns(3, usual, race_with_answers);
}
