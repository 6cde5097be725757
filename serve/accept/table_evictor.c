#include "serve/accept/table_evictor.h"

#include "serve/accept/accept.h"
#include "serve/accept/connection_table.h"
#include "serve/connection/descriptors.h"

#include <gossamer/sys.h>

/* While the table is full. */
#define INTERVAL_NS (20 * GS_MILLISECOND)

/* Only waits that are longer are ended, or half as long for an address with more than its share:
 * threads and processes that are fewer than their clients are not to close connections whose next
 * request is on its way. */
#define RECENT_NS GS_SECOND

/* Clients that wait at all listeners. */
static uint64_t count_pending(const struct serve_server *server)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < server->set_count * server->address_count; i++)
        if (server->listeners[i] >= 0 && serve_is_connection_pending(server->listeners[i])) {
            uint64_t length =
                serve_accept_queue_length(server->listeners[i], server->options->backlog);
            count += length ? length : 1;
        }
    return count;
}

/* Returns whether to look again, after the interval. */
static bool look(struct serve_server *server, uint64_t now_ns)
{
    if (!serve_table_is_full(server->table) && !serve_descriptors_are_short())
        return false;
    uint64_t pending = count_pending(server);
    unsigned max =
        pending < SERVE_EVICTION_CANDIDATES ? (unsigned)pending : SERVE_EVICTION_CANDIDATES;
    if (!max || now_ns <= RECENT_NS)
        return true;
    unsigned count =
        serve_table_evict(server->table, max, now_ns - RECENT_NS / 2, now_ns - RECENT_NS);
    while (count--)
        serve_eviction_count(server->evictions);
    return true;
}

static void look_and_set_timer(struct serve_table_evictor *evictor)
{
    uint64_t now_ns = gs_loop_now(evictor->full.watcher.loop);
    bool is_again = look(evictor->server, now_ns);
    (void)!gs_timer_start(&evictor->again, is_again ? now_ns + INTERVAL_NS : GS_NEVER);
}

static void on_full(struct gs_io *io, unsigned events)
{
    struct serve_table_evictor *evictor = io->watcher.data;
    uint64_t count;
    (void)events;
    gs_sys_read(io->fd, &count, sizeof count);
    look_and_set_timer(evictor);
}

static void on_again(struct gs_timer *timer)
{
    look_and_set_timer(timer->watcher.data);
}

int serve_table_evictor_start(struct serve_table_evictor *evictor, struct serve_server *server,
                              struct gs_loop *loop)
{
    if (!server->table || !server->options->evicts)
        return 0;
    evictor->server = server;
    gs_io_init(&evictor->full, loop, on_full);
    gs_io_set(&evictor->full, server->table->full_fd, GS_READ);
    gs_timer_init(&evictor->again, loop, on_again);
    evictor->full.watcher.data = evictor->again.watcher.data = evictor;
    int err = gs_timer_start(&evictor->again, GS_NEVER);
    if (!err)
        err = gs_io_start(&evictor->full);
    if (!err)
        look_and_set_timer(evictor);
    return err;
}
