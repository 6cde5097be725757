#include "base/look_up.h"
#include "base/pool.h"
#include "tests/test.h"

#include <errno.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdatomic.h>

static sem_t may_return, is_complete;
static struct pool_user user;
static struct job blocker;
static atomic_bool is_memory_short;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return atomic_load(&is_memory_short) ? NULL : __real_malloc(size);
}

static void block(void *unused)
{
    (void)unused;
    while (sem_wait(&may_return))
        ;
}

static void blocker_done(struct job *job)
{
    (void)job;
}

static void complete(struct look_up_waiter *waiter)
{
    (void)waiter;
    sem_post(&is_complete);
}

static void wait_for(int count)
{
    while (count > 0)
        count -= !sem_wait(&is_complete);
}

/* The only kernel thread is occupied, so that what is started stays queued. */
static void begin(void)
{
    sem_init(&may_return, 0, 0);
    sem_init(&is_complete, 0, 0);
    user = (struct pool_user){.max_threads = 1};
    blocker = (struct job){.fn = block, .complete = blocker_done};
    CHECK_EQ(gs_pool_retain(&user), 0);
    CHECK_EQ(gs_pool_submit(&user, &blocker), 0);
}

static void end(void)
{
    sem_post(&may_return);
    gs_pool_release(&user);
    CHECK_EQ(sem_trywait(&is_complete), -1);
}

static void start(struct look_up_waiter *waiter, const char *service)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_CANONNAME,
                                   .ai_socktype = SOCK_STREAM};
    *waiter = (struct look_up_waiter){.look_up = gs_look_up_new("127.0.0.1", service, &hints),
                                      .complete = complete};
    CHECK(waiter->look_up);
    CHECK_EQ(gs_look_up_start(waiter, &user, NULL), 0);
}

static void take(struct look_up_waiter *waiter, int port)
{
    struct addrinfo *found = NULL;
    CHECK_EQ(gs_look_up_result(waiter->look_up), 0);
    CHECK_EQ(gs_look_up_take(waiter->look_up, &found), 0);
    gs_look_up_release(waiter->look_up);
    CHECK(!found->ai_next);
    CHECK_STR(found->ai_canonname, "127.0.0.1");
    CHECK_EQ(((struct sockaddr_in *)found->ai_addr)->sin_port, htons((uint16_t)port));
    freeaddrinfo(found);
}

TEST(waiters_of_one_look_up_get_results_of_their_own)
{
    struct look_up_waiter one, same, other;
    begin();
    start(&one, "80");
    start(&same, "80");
    start(&other, "81");
    CHECK(one.look_up == same.look_up);
    CHECK(one.look_up != other.look_up);
    sem_post(&may_return);
    wait_for(3);
    take(&one, 80);
    take(&same, 80);
    take(&other, 81);
    end();
}

TEST(look_up_that_is_done_is_not_joined)
{
    struct look_up_waiter one, later;
    begin();
    sem_post(&may_return);
    start(&one, "80");
    wait_for(1);
    start(&later, "80");
    CHECK(one.look_up != later.look_up);
    wait_for(1);
    take(&one, 80);
    take(&later, 80);
    end();
}

TEST(waiter_that_leaves_is_not_completed)
{
    struct look_up_waiter one, same;
    begin();
    start(&one, "80");
    start(&same, "80");
    CHECK(gs_look_up_leave(&one));
    gs_look_up_release(one.look_up);
    sem_post(&may_return);
    wait_for(1);
    CHECK(!gs_look_up_leave(&same));
    take(&same, 80);
    end();
}

TEST(look_up_that_all_have_left_is_not_made)
{
    struct look_up_waiter one, same, later;
    begin();
    start(&one, "80");
    start(&same, "80");
    CHECK(gs_look_up_leave(&same));
    gs_look_up_release(same.look_up);
    CHECK(gs_look_up_leave(&one));
    gs_look_up_release(one.look_up);
    start(&later, "80");
    sem_post(&may_return);
    wait_for(1);
    take(&later, 80);
    end();
}

TEST(waiter_for_whose_copy_there_is_no_memory_fails_alone)
{
    struct look_up_waiter one, same;
    struct addrinfo *found = NULL;
    begin();
    start(&one, "80");
    start(&same, "80");
    sem_post(&may_return);
    wait_for(2);
    atomic_store(&is_memory_short, true);
    CHECK_EQ(gs_look_up_take(one.look_up, &found), -ENOMEM);
    CHECK(!found);
    CHECK(!gs_look_up_new("127.0.0.1", "80", NULL));
    atomic_store(&is_memory_short, false);
    gs_look_up_release(one.look_up);
    take(&same, 80);
    end();
}
