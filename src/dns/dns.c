/* Each worker that looks names up has a resolver, which only its kernel thread uses: so c-ares
 * needs no lock, and answers come through the loop that the worker polls anyway. Threads of other
 * workers may have joined a look-up, and may give it up; base/look_up.c guards that.
 *
 *     waiter's worker                    this loop                          others
 *     ---------------                    ---------                          ------
 *     gs_look_up_start, with its lock
 *       ask: append it to the queue,
 *            start the timers
 *     the thread waits                                                      join, leave, release
 *                                        on_due: c-ares sends queries;
 *                                          nobody waits any more: nothing
 *                                          is sent
 *                                        on_ready: c-ares receives; an
 *                                          answer: gs_look_up_complete,
 *                                          which locks, wakes the waiters,
 *                                          or frees the record if none is
 *                                          left
 *
 * So c-ares is never called with the lock held, nor on the stack of a thread, which may be small.
 * It cannot cancel one query: a look-up that all have left stays with it until it is answered, or
 * until no server has answered in time.
 *
 * A channel of c-ares has one socket for each name server, with one port, and 65,536 numbers for
 * its queries. It gets CHANNEL_LOOK_UPS_MAX look-ups, and is freed with the last answer; new
 * look-ups use another channel. So 10,000 look-ups have some 80 sockets, whose buffers have room
 * for all answers, a port is used for a short time only, and a changed resolv.conf holds for what
 * is looked up from then on.
 *
 * In the child of a fork, the worker's loop is replaced (gs_fork). The resolver is freed with the
 * loop: its sockets are closed, and nothing is completed, since no thread waits there. Resolvers of
 * other workers are left as they are, like these workers. */
#include "dns/dns.h"

#include "dns/channel.h"

#include <errno.h>
#include <stdlib.h>

/* How often c-ares looks for queries that were not answered in time. */
#define TICK (200 * GS_MILLISECOND)

/* How many look-ups are sent before answers are received. */
#define BATCH 64u

struct queued {
    struct queued *next;
    struct look_up *look_up;
};

struct gs_dns {
    struct resolver resolver;
    struct gs_loop *loop;
    struct gs_dns **place;
    struct gs_loop_cleanup cleanup;
    struct gs_fork fork;
    struct gs_timer due;          /* active while there are questions */
    struct gs_timer tick;         /* active while c-ares has something to do */
    struct queued *first, **last; /* questions that were not sent yet */
    struct gs_list channels;      /* all of them */
    struct channel *newest;       /* takes look-ups, or NULL */
    struct dns_config config;
    bool is_lost; /* in the child of a fork */
};

/* ---- Channels ---- */

static void retire_newest(struct gs_dns *dns)
{
    if (!dns->newest)
        return;
    dns->newest->is_retired = true;
    gs_dns_channel_collect(dns->newest);
    dns->newest = NULL;
}

/* Returns 0, -ENOMEM or -EIO. */
static int renew_newest(struct gs_dns *dns)
{
    const struct channel *newest = dns->newest;
    gs_dns_config_refresh(&dns->config, gs_clock_now());
    if (newest && newest->asked < CHANNEL_LOOK_UPS_MAX &&
        newest->config_version == dns->config.version)
        return 0;
    retire_newest(dns);
    struct channel *channel;
    int err = gs_dns_channel_new(dns->loop, &dns->config, &channel);
    if (err)
        return err;
    gs_list_append(&dns->channels, &channel->link);
    dns->newest = channel;
    return 0;
}

static bool has_unanswered(const struct gs_dns *dns)
{
    GS_LIST_FOREACH (link, &dns->channels) {
        if (gs_container_of(link, struct channel, link)->unanswered)
            return true;
    }
    return false;
}

static void on_tick(struct gs_timer *timer)
{
    struct gs_dns *dns = gs_container_of(timer, struct gs_dns, tick);
    struct gs_list *next;
    for (struct gs_list *link = dns->channels.next; link != &dns->channels; link = next) {
        next = link->next;
        gs_dns_channel_tick(gs_container_of(link, struct channel, link));
    }
    if (!dns->first && !has_unanswered(dns))
        gs_timer_stop(timer);
}

/* ---- Questions ---- */

static void fail(struct look_up *look_up, int err)
{
    gs_look_up_resolution(look_up)->result = err == -ENOMEM ? EAI_MEMORY : EAI_FAIL;
    gs_look_up_complete(look_up);
}

/* Complete a look-up that nobody waits for: that frees it. */
static void drop(struct look_up *look_up)
{
    gs_look_up_resolution(look_up)->result = EAI_AGAIN;
    gs_look_up_complete(look_up);
}

static struct look_up *take_question(struct gs_dns *dns)
{
    struct queued *queued = dns->first;
    struct look_up *look_up = queued->look_up;
    dns->first = queued->next;
    if (!dns->first)
        dns->last = &dns->first;
    free(queued);
    return look_up;
}

static void ask_next(struct gs_dns *dns)
{
    struct look_up *look_up = take_question(dns);
    if (!gs_look_up_is_wanted(look_up)) {
        drop(look_up);
        return;
    }
    int err = renew_newest(dns);
    if (err)
        fail(look_up, err);
    else
        gs_dns_channel_ask(dns->newest, look_up);
}

static void on_due(struct gs_timer *timer)
{
    struct gs_dns *dns = gs_container_of(timer, struct gs_dns, due);
    for (unsigned i = 0; i < BATCH && dns->first; i++)
        ask_next(dns);
    if (!dns->first)
        gs_timer_stop(timer);
}

/* As repeating timers, they need no memory when they expire. */
static int start_timers(struct gs_dns *dns)
{
    int err = 0;
    if (!gs_watcher_is_active(&dns->due.watcher))
        err = gs_timer_start_repeat(&dns->due, 0, 1);
    if (!err && !gs_watcher_is_active(&dns->tick.watcher))
        err = gs_timer_start_repeat(&dns->tick, gs_clock_now() + TICK, TICK);
    return err;
}

static int ask(struct resolver *resolver, struct look_up *look_up)
{
    struct gs_dns *dns = gs_container_of(resolver, struct gs_dns, resolver);
    struct queued *queued = malloc(sizeof *queued);
    int err = queued ? start_timers(dns) : -ENOMEM;
    if (err) {
        free(queued);
        return err;
    }
    *queued = (struct queued){.look_up = look_up};
    *dns->last = queued;
    dns->last = &queued->next;
    return 0;
}

/* ---- The resolver ---- */

static void on_fork(struct gs_fork *fork)
{
    struct gs_dns *dns = gs_container_of(fork, struct gs_dns, fork);
    dns->is_lost = true;
    GS_LIST_FOREACH (link, &dns->channels)
        gs_container_of(link, struct channel, link)->is_lost = true;
}

static void on_loop_free(struct gs_loop_cleanup *cleanup)
{
    struct gs_dns *dns = gs_container_of(cleanup, struct gs_dns, cleanup);
    while (dns->first) {
        struct look_up *look_up = take_question(dns);
        if (dns->is_lost)
            gs_look_up_discard(look_up);
        else
            drop(look_up);
    }
    while (!gs_list_is_empty(&dns->channels))
        gs_dns_channel_free(gs_container_of(gs_list_first(&dns->channels), struct channel, link));
    gs_timer_stop(&dns->due);
    gs_timer_stop(&dns->tick);
    gs_fork_stop(&dns->fork);
    *dns->place = NULL;
    free(dns);
}

static int new_dns(struct gs_loop *loop, struct gs_dns **place)
{
    struct gs_dns *dns = malloc(sizeof *dns);
    if (!dns)
        return -ENOMEM;
    *dns = (struct gs_dns){.resolver = {ask}, .loop = loop, .place = place};
    dns->last = &dns->first;
    gs_list_init(&dns->channels);
    gs_timer_init(&dns->due, loop, on_due);
    gs_timer_init(&dns->tick, loop, on_tick);
    gs_fork_init(&dns->fork, loop, on_fork);
    gs_fork_start(&dns->fork);
    gs_loop_cleanup_init(&dns->cleanup, loop, on_loop_free);
    gs_loop_cleanup_start(&dns->cleanup);
    *place = dns;
    return 0;
}

static bool suits(struct gs_dns *dns, const struct resolution *resolution)
{
    gs_dns_config_refresh(&dns->config, gs_clock_now());
    return gs_dns_config_suits(&dns->config, resolution);
}

static struct resolver *resolver_of(struct gs_dns *dns)
{
    return &dns->resolver;
}

const struct gs_dns_operations gs_dns_operations = {new_dns, suits, resolver_of};
