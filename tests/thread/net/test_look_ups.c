/* Look-ups that are joined, and look-ups that wait for no others. */
#include "tests/thread/fixture.h"
#include "tests/thread/net/names.h"

#include "base/hosts_file.h"
#include "thread/context/sanitizer.h"

#include <arpa/inet.h>
#include <gossamer/net.h>
#include <netinet/in.h>
#include <sys/wait.h>

enum { MANY = 100, DIALS = 300 };

static const struct sockaddr_storage anything = {.ss_family = AF_INET};
static char hosts[] = "/tmp/test_look_ups.XXXXXX";
static atomic_int started;

static int look_up(const char *name, const char *service, uint64_t deadline_ns)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    atomic_fetch_add(&started, 1);
    int err = gs_resolve(name, service, &hints, deadline_ns, &found);
    MUST_EQ(found != NULL, err == 0);
    if (found)
        freeaddrinfo(found);
    return err;
}

/* "local" is a name of the hosts file. */
static void run_names(unsigned workers, unsigned max_pool_threads, gs_thread_fn *first)
{
    const struct gs_threads_options options = {.workers = workers,
                                               .max_pool_threads = max_pool_threads};
    int fd = mkstemp(hosts);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, "127.0.0.1 local\n", 16), 16);
    close(fd);
    gs_hosts_file = hosts;
    names[0] = (struct name){"stuck", &anything, 1};
    names[1] = (struct name){"local", &anything, 1};
    CHECK_EQ(sem_init(&lookup_may_end, 0, 0), 0);
    atomic_store(&lookups_started, 0);
    atomic_store(&lookups_ended, 0);
    atomic_store(&started, 0);
    CHECK_EQ(gs_threads_run(&options, first, NULL, NULL), 0);
    for (int i = 0; i < atomic_load(&lookups_started); i++)
        sem_post(&lookup_may_end);
    while (atomic_load(&lookups_ended) < atomic_load(&lookups_started))
        usleep(1000);
    unlink(hosts);
    strcpy(hosts + strlen(hosts) - 6, "XXXXXX");
}

static void wait_for(atomic_int *count, int least)
{
    while (atomic_load(count) < least)
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
}

/* ---- Joined ---- */

static void *look_up_stuck(void *service)
{
    return (void *)(intptr_t)look_up("stuck", service, GS_NEVER);
}

static void *look_up_stuck_briefly(void *service)
{
    return (void *)(intptr_t)look_up("stuck", service, after(20 * GS_MILLISECOND));
}

/* With one worker, the threads that have started are waiting when another one runs. */
static void *join_look_ups(void *unused)
{
    struct gs_thread *threads[MANY];
    for (int i = 0; i < MANY; i++)
        threads[i] = spawn(look_up_stuck, "80");
    wait_for(&started, MANY);
    wait_for(&lookups_started, 1);
    sem_post(&lookup_may_end);
    for (int i = 0; i < MANY; i++)
        MUST_EQ((intptr_t)join(threads[i]), 0);
    MUST_EQ(atomic_load(&lookups_started), 1);
    return unused;
}

TEST(identical_look_ups_in_progress_are_made_once)
{
    run_names(1, 0, join_look_ups);
}

static void *join_on_workers(void *unused)
{
    struct gs_thread *threads[MANY];
    for (int i = 0; i < MANY; i++)
        sem_post(&lookup_may_end);
    for (int i = 0; i < MANY; i++)
        threads[i] = spawn(look_up_stuck, i % 2 ? "80" : "443");
    for (int i = 0; i < MANY; i++)
        MUST_EQ((intptr_t)join(threads[i]), 0);
    return unused;
}

TEST(threads_of_several_workers_join_and_end)
{
    for (int i = 0; i < 20; i++)
        run_names(3, 0, join_on_workers);
}

static void *give_up_some(void *unused)
{
    struct gs_thread *patient = spawn(look_up_stuck, "80"),
                     *hasty = spawn(look_up_stuck_briefly, "80"),
                     *canceled = spawn(look_up_stuck, "80");
    wait_for(&started, 3);
    MUST_EQ((intptr_t)join(hasty), -ETIMEDOUT);
    gs_thread_cancel(canceled);
    MUST_EQ((intptr_t)join(canceled), -ECANCELED);
    wait_for(&lookups_started, 1);
    MUST_EQ(look_up("stuck", "80", after(GS_MILLISECOND)), -ETIMEDOUT);
    sem_post(&lookup_may_end);
    MUST_EQ((intptr_t)join(patient), 0);
    MUST_EQ(atomic_load(&lookups_started), 1);
    return unused;
}

/* The one that began the look-up also gives it up. */
static void *give_up_first(void *unused)
{
    struct gs_thread *first = spawn(look_up_stuck, "80");
    wait_for(&lookups_started, 1);
    struct gs_thread *second = spawn(look_up_stuck, "80");
    wait_for(&started, 2);
    gs_thread_cancel(first);
    MUST_EQ((intptr_t)join(first), -ECANCELED);
    MUST_EQ(atomic_load(&lookups_ended), 0);
    sem_post(&lookup_may_end);
    MUST_EQ((intptr_t)join(second), 0);
    MUST_EQ(atomic_load(&lookups_started), 1);
    return unused;
}

TEST(each_waiter_has_a_deadline_and_a_cancellation_of_its_own)
{
    run_names(1, 0, give_up_some);
    run_names(1, 0, give_up_first);
}

static void *give_up_all(void *unused)
{
    struct gs_thread *threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = spawn(look_up_stuck, "80");
    wait_for(&started, 3);
    wait_for(&lookups_started, 1);
    for (int i = 0; i < 3; i++)
        gs_thread_cancel(threads[i]);
    for (int i = 0; i < 3; i++)
        MUST_EQ((intptr_t)join(threads[i]), -ECANCELED);
    threads[0] = spawn(look_up_stuck, "80");
    wait_for(&lookups_started, 2);
    sem_post(&lookup_may_end);
    sem_post(&lookup_may_end);
    MUST_EQ((intptr_t)join(threads[0]), 0);
    return unused;
}

TEST(look_up_that_nobody_waits_for_any_more_is_not_joined)
{
    run_names(1, 0, give_up_all);
    run_names(3, 0, give_up_all);
}

/* ---- In the child of a fork ---- */

static void look_up_in_child(void)
{
    sem_post(&lookup_may_end);
    MUST_EQ(look_up("stuck", "80", after(20 * GS_SECOND)), 0);
    MUST_EQ(look_up("local", "80", after(20 * GS_SECOND)), 0);
}

static void *fork_during_look_up(void *unused)
{
    struct gs_thread *thread = spawn(look_up_stuck, "80");
    int status = -1;
    wait_for(&lookups_started, 1);
    pid_t child = gs_fork();
    MUST(child >= 0);
    if (!child) {
        look_up_in_child();
        _exit(0);
    }
    MUST_EQ(gs_wait_child(child, GS_NEVER, &status), 0);
    MUST_EQ(status, 0);
    sem_post(&lookup_may_end);
    MUST_EQ((intptr_t)join(thread), 0);
    return unused;
}

TEST(child_of_a_fork_does_not_wait_for_a_look_up_of_its_parent)
{
    if (IS_EMULATED)
        SKIP("the emulator crashes in a fork with several kernel threads");
    if (GS_TSAN)
        SKIP("the thread sanitizer does not support kernel threads in a child");
    run_names(1, 0, fork_during_look_up);
    run_names(3, 0, fork_during_look_up);
}

/* ---- Names that wait for no others ---- */

static void occupy(struct gs_thread **threads, int count)
{
    static char services[MANY][16];
    for (int i = 0; i < count; i++) {
        snprintf(services[i], sizeof services[i], "%d", i + 1);
        threads[i] = spawn(look_up_stuck, services[i]);
    }
    wait_for(&started, count);
}

/* There are more than may leave the pool, so that the run would wait for them. */
static void end_abandoned(void)
{
    for (int i = 0; i < 2 * DIALS; i++)
        sem_post(&lookup_may_end);
}

static void end_all(struct gs_thread **threads, int count)
{
    for (int i = 0; i < count; i++)
        gs_thread_cancel(threads[i]);
    for (int i = 0; i < count; i++)
        MUST_EQ((intptr_t)join(threads[i]), -ECANCELED);
    end_abandoned();
}

/* More than there are kernel threads for look-ups. */
static void *look_up_local_names(void *unused)
{
    struct gs_thread *threads[MANY];
    occupy(threads, MANY);
    MUST_EQ(look_up("local", "80", after(20 * GS_SECOND)), 0);
    MUST_EQ(look_up("LOCAL", "80", after(20 * GS_SECOND)), -GS_ENONAME); /* not in the table */
    MUST_EQ(look_up("stuck", "999", after(20 * GS_MILLISECOND)), -ETIMEDOUT);
    end_all(threads, MANY);
    return unused;
}

TEST(names_of_the_hosts_file_do_not_wait_for_others)
{
    for (unsigned workers = 1; workers < 4; workers += 2) {
        run_names(workers, 1, look_up_local_names);
        run_names(workers, 0, look_up_local_names);
    }
}

/* ---- Pages of this machine beside names whose server does not answer ---- */

static char local_address[64];

static void *dial(void *address)
{
    int fd = gs_dial(address, GS_NEVER);
    if (fd >= 0)
        gs_close(fd);
    return (void *)(intptr_t)(fd < 0 ? fd : 0);
}

static void *accept_all(void *listener)
{
    int fd;
    while ((fd = gs_accept((int)(intptr_t)listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER)) >= 0)
        gs_close(fd);
    return NULL;
}

static int listen_there(struct sockaddr_storage *ret_address)
{
    int listener = gs_listen("127.0.0.1:0", NULL);
    socklen_t length = sizeof *ret_address;
    MUST(listener >= 0);
    MUST_EQ(gs_sys_getsockname(listener, (struct sockaddr *)ret_address, &length), 0);
    snprintf(local_address, sizeof local_address, "local:%u",
             ntohs(((struct sockaddr_in *)ret_address)->sin_port));
    return listener;
}

/* Every third name is missing; with `different`, each of these is another look-up. */
static void dial_mix(bool different)
{
    static char addresses[DIALS][32];
    struct sockaddr_storage address;
    struct gs_thread *threads[DIALS];
    int listener = listen_there(&address);
    struct gs_thread *server = spawn(accept_all, (void *)(intptr_t)listener);
    names[1].addresses = &address;
    for (int i = 0; i < DIALS; i++) {
        snprintf(addresses[i], sizeof addresses[i], "stuck:%d", different ? i + 1 : 80);
        threads[i] = spawn(dial, i % 3 ? local_address : addresses[i]);
    }
    for (int i = 0; i < DIALS; i++)
        if (i % 3)
            MUST_EQ((intptr_t)join(threads[i]), 0);
    MUST_EQ(atomic_load(&lookups_ended), 0);
    for (int i = 0; i < DIALS; i += 3)
        gs_thread_cancel(threads[i]);
    for (int i = 0; i < DIALS; i += 3)
        MUST_EQ((intptr_t)join(threads[i]), -ECANCELED);
    gs_close(listener);
    join(server);
    names[1].addresses = &anything;
}

static void *dial_both_mixes(void *unused)
{
    dial_mix(false);
    dial_mix(true);
    end_abandoned();
    return unused;
}

TEST(pages_of_this_machine_come_while_other_names_are_looked_up)
{
    run_names(1, 0, dial_both_mixes);
    run_names(3, 0, dial_both_mixes);
}
