#include "serve/accept/turns.h"

#include "tests/test.h"

#define THREADS 8
#define ROUNDS 2000

static struct serve_turns *turns;
static atomic_uint inside, most;

static void make_turns(unsigned count)
{
    turns = mmap(NULL, sizeof *turns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(turns != MAP_FAILED);
    CHECK_EQ(serve_turns_init(turns, count), 0);
}

static void *take_turns(void *unused)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        pthread_mutex_t *turn = serve_turns_take(turns);
        unsigned now = atomic_fetch_add(&inside, 1) + 1, seen = atomic_load(&most);
        while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
            ;
        atomic_fetch_sub(&inside, 1);
        pthread_mutex_unlock(turn);
    }
    return unused;
}

TEST(no_more_have_a_turn_than_there_are)
{
    for (unsigned count = 1; count <= 3; count++) {
        pthread_t threads[THREADS];
        make_turns(count);
        atomic_store(&most, 0);
        for (unsigned i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, take_turns, NULL), 0);
        for (unsigned i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        CHECK(atomic_load(&most) >= 1 && atomic_load(&most) <= count);
    }
}

TEST(one_that_nobody_has_is_taken_without_waiting)
{
    make_turns(3);
    pthread_mutex_t *taken[3];
    for (unsigned i = 0; i < 3; i++)
        taken[i] = serve_turns_take(turns);
    CHECK(taken[0] != taken[1] && taken[1] != taken[2] && taken[2] != taken[0]);
    pthread_mutex_unlock(taken[1]);
    pthread_mutex_t *again = serve_turns_take(turns);
    CHECK(again == taken[1]);
}

/* While others wait for their turns, and before anybody does. */
TEST(the_turns_of_processes_that_are_killed_go_on)
{
    int status;
    make_turns(2);
    for (unsigned i = 0; i < 5; i++) {
        pid_t child = fork();
        if (!child) {
            (void)serve_turns_take(turns);
            (void)serve_turns_take(turns);
            raise(SIGKILL);
        }
        pid_t waiting = i % 2 ? fork() : -1;
        if (!waiting) {
            pthread_mutex_unlock(serve_turns_take(turns));
            _exit(0);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFSIGNALED(status));
        if (waiting > 0) {
            CHECK_EQ(waitpid(waiting, &status, 0), waiting);
            CHECK_EQ(status, 0);
        }
    }
    pthread_mutex_t *first = serve_turns_take(turns), *second = serve_turns_take(turns);
    CHECK(first != second);
}
