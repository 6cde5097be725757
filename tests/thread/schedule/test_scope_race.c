/* Scopes with short lives, under random operations: canceled by their owner, by members, by another
 * thread that cancels the owner, or by a deadline, at any point. The scope is on the owner's stack,
 * which is overwritten as soon as the wait has returned; the members write only to it. */
#include "tests/thread/fixture.h"

#include <gossamer/scope.h>

enum { WORKERS = 3, OWNERS = 6, ROUNDS_MIN = 30, TIME_MS = 400 };
enum { POISON = 0x5a };

struct life {
    struct gs_scope scope;
    struct gs_thread_attributes attributes;
    atomic_uint seed;
    atomic_int begun, over; /* calls of members */
    atomic_int spawned;
    struct gs_channel *channel;
};

static unsigned next(atomic_uint *seed)
{
    return (atomic_fetch_add(seed, 0x9e3779b9) * 2654435761u) >> 15;
}

static int live(void *life_);

static int spawn_another(struct life *life, uint64_t deadline_ns)
{
    int err = gs_scope_spawn(&life->scope, live, life, deadline_ns);
    if (!err)
        atomic_fetch_add(&life->spawned, 1);
    return err;
}

static int act(struct life *life)
{
    int item = 0;
    switch (next(&life->seed) % 11) {
    case 0:
        return -EIO;
    case 1:
        gs_scope_cancel(&life->scope);
        return 0;
    case 2:
        return gs_thread_sleep(after(next(&life->seed) % 100 * GS_MICROSECOND));
    case 3:
        return gs_channel_receive(life->channel, &item, GS_NEVER);
    case 4:
        return gs_channel_send(life->channel, &item, after(50 * GS_MICROSECOND));
    case 5:
        return spawn_another(life, after(50 * GS_MICROSECOND));
    case 6:
        return gs_thread_sleep(GS_NEVER);
    case 7:
        gs_thread_yield();
        return 0;
    case 8: /* whether this is a consequence is decided while others cancel */
        return -ECANCELED;
    default:
        return 0;
    }
}

static int live(void *life_)
{
    struct life *life = life_;
    atomic_fetch_add(&life->begun, 1);
    int err = act(life);
    atomic_fetch_add(&life->over, 1);
    return err;
}

static void spawn_some(struct life *life, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        int err = spawn_another(life, after(200 * GS_MICROSECOND));
        MUST(!err || err == -ECANCELED || err == -ETIMEDOUT);
    }
}

/* A scope whose members may all wait forever has a deadline. */
static __attribute__((noinline)) void run_life(unsigned seed, bool migrates)
{
    struct life life = {.seed = seed};
    life.attributes.migrates = migrates;
    life.scope.attributes = &life.attributes;
    life.scope.max_threads = next(&life.seed) % 3 ? 0 : 3;
    MUST_EQ(gs_channel_new(sizeof(int), 0, &life.channel), 0);
    spawn_some(&life, next(&life.seed) % 12);
    if (next(&life.seed) % 8 == 0)
        gs_scope_cancel(&life.scope);
    int err = gs_scope_wait(&life.scope, after(next(&life.seed) % 400 * GS_MICROSECOND));
    MUST(!err || err == -EIO || err == -ETIMEDOUT || err == -ECANCELED);
    MUST_EQ(atomic_load(&life.begun), atomic_load(&life.over));
    MUST_EQ(atomic_load(&life.begun), atomic_load(&life.spawned));
    MUST(!life.scope.members && !life.scope.count && !life.scope.spawning.first &&
         !life.scope.waiting.first);
    gs_channel_free(life.channel);
}

static __attribute__((noinline)) void overwrite_stack(void)
{
    unsigned char bytes[2048];
    memset(bytes, POISON, sizeof bytes);
    __asm__ volatile("" : : "r"(bytes) : "memory");
    for (int i = 0; i < 3; i++)
        gs_thread_yield();
    for (size_t i = 0; i < sizeof bytes; i++)
        MUST_EQ(bytes[i], POISON);
}

static void *own_once(void *seed)
{
    unsigned number = (unsigned)(uintptr_t)seed;
    run_life(number * 7919, number % 2);
    overwrite_stack();
    return NULL;
}

static void *own_many(void *number)
{
    uint64_t end_ns = after(TIME_MS * GS_MILLISECOND);
    unsigned base = (unsigned)(uintptr_t)number * 100003;
    for (unsigned round = 0; round < ROUNDS_MIN || gs_clock_now() < end_ns; round++) {
        const struct gs_thread_attributes attributes = {.migrates = round % 3 == 0};
        struct gs_thread *owner = NULL;
        if (round % 4) {
            own_once((void *)(uintptr_t)(base + round));
            continue;
        }
        MUST_EQ(gs_thread_spawn(&attributes, own_once, (void *)(uintptr_t)(base + round), &owner),
                0);
        MUST_EQ(gs_thread_sleep(after(round % 7 * (20 * GS_MICROSECOND))), 0);
        gs_thread_cancel(owner);
        join(owner);
    }
    return NULL;
}

THREAD(run_owners)
{
    struct gs_thread *owners[OWNERS];
    for (uintptr_t i = 0; i < OWNERS; i++)
        owners[i] = spawn(own_many, (void *)i);
    for (int i = 0; i < OWNERS; i++)
        join(owners[i]);
}

TEST(scopes_that_end_in_any_way_leave_nothing_behind)
{
    run_with(1, run_owners);
    run_with(WORKERS, run_owners);
}
