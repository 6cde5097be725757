#include "thread/schedule/wait.h"

#include <assert.h>

void gs_wait_group_add(struct gs_wait_group *group, uint64_t count)
{
    spin_lock(&group->lock);
    group->count += count;
    spin_unlock(&group->lock);
}

void gs_wait_group_done(struct gs_wait_group *group)
{
    CHECKED_WORKER();
    spin_lock(&group->lock);
    CHECKED(group->count, "wait group %p is done already", (void *)group);
    assert(group->count);
    if (--group->count)
        spin_unlock(&group->lock);
    else
        gs_waiters_wake_all_and_unlock(&group->lock, &group->waiting);
}

int gs_wait_group_wait(struct gs_wait_group *group, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    static const struct wait_kind waiting = {.name = "wait group",
                                             WAITS_IN(gs_wait_group, waiting)};
    spin_lock(&group->lock);
    if (!group->count) {
        spin_unlock(&group->lock);
        return 0;
    }
    return wait_for_object(worker_current(), group, &waiting, deadline_ns);
}
