/* Filters: bufferevents that change what passes through the one below.
 *
 *     input  <- process_in  <- underlying input
 *     output -> process_out -> underlying output
 */
#include "compat/libevent/bufferevent/bev.h"
#include "compat/libevent/event/log.h"
#include "compat/libevent/event/memory.h"

struct filter {
    struct gs_bev bev;
    bufferevent_filter_cb process_in, process_out;
    void (*free_context)(void *context);
    void *context;
    struct evbuffer_cb_entry *input_entry; /* enabled while input waits below for room here */
    struct evbuffer_cb_entry *output_entry;
};

static struct filter *filter_of(struct gs_bev *bev)
{
    return (struct filter *)bev;
}

static enum bufferevent_filter_result move_all(struct evbuffer *from, struct evbuffer *to,
                                               ev_ssize_t limit, enum bufferevent_flush_mode mode,
                                               void *context)
{
    (void)mode;
    (void)context;
    if (limit < 0)
        return evbuffer_add_buffer(to, from) == 0 ? BEV_OK : BEV_ERROR;
    return evbuffer_remove_buffer(from, to, (size_t)limit) < 0 ? BEV_ERROR : BEV_OK;
}

/* A buffer with a high mark, 0: none. In a flush it does not count. */
static bool is_full(const struct evbuffer *buffer, size_t high, enum bufferevent_flush_mode mode)
{
    return mode == BEV_NORMAL && high && evbuffer_get_length(buffer) >= high;
}

/* Returns how many bytes a filter should add at most, or -1. */
static ev_ssize_t room(const struct evbuffer *buffer, size_t high, enum bufferevent_flush_mode mode)
{
    if (mode != BEV_NORMAL || !high)
        return -1;
    return (ev_ssize_t)(high - evbuffer_get_length(buffer));
}

/* ---- Input ---- */

static bool is_input_full(const struct filter *filter, enum bufferevent_flush_mode mode)
{
    const struct bufferevent *open = &filter->bev.open;
    return is_full(open->input, open->wm_read.high, mode);
}

/* Returns whether there is new input. */
static bool process_input(struct filter *filter, enum bufferevent_flush_mode mode)
{
    struct bufferevent *open = &filter->bev.open, *below = &filter->bev.underlying->open;
    if (mode == BEV_NORMAL && (!(open->enabled & EV_READ) || is_input_full(filter, mode)))
        return false;
    bool has_moved = false;
    enum bufferevent_filter_result result;
    do {
        ev_ssize_t limit = room(open->input, open->wm_read.high, mode);
        result = filter->process_in(below->input, open->input, limit, mode, filter->context);
        has_moved |= result == BEV_OK;
    } while (result == BEV_OK && open->enabled & EV_READ && evbuffer_get_length(below->input) &&
             !is_input_full(filter, mode));
    if (has_moved)
        gs_bev_start_timer(&open->ev_read, &open->timeout_read);
    return has_moved;
}

static void advance_input(struct filter *filter)
{
    struct bufferevent *open = &filter->bev.open, *below = &filter->bev.underlying->open;
    if (process_input(filter, BEV_NORMAL))
        gs_bev_trigger(&filter->bev, EV_READ, 0);
    if (evbuffer_get_length(below->input) && is_input_full(filter, BEV_NORMAL))
        evbuffer_cb_set_flags(open->input, filter->input_entry, EVBUFFER_CB_ENABLED);
}

/* Only while input waits below: there may be room now. */
static void on_input_changed(struct evbuffer *input, const struct evbuffer_cb_info *info,
                             void *argument)
{
    (void)info;
    struct filter *filter = argument;
    if (is_input_full(filter, BEV_NORMAL))
        return;
    gs_bev_hold(&filter->bev);
    evbuffer_cb_clear_flags(input, filter->input_entry, EVBUFFER_CB_ENABLED);
    advance_input(filter);
    gs_bev_release(&filter->bev);
}

/* ---- Output ---- */

static bool is_output_full(const struct filter *filter, enum bufferevent_flush_mode mode)
{
    const struct bufferevent *below = &filter->bev.underlying->open;
    return is_full(below->output, below->wm_write.high, mode);
}

static bool has_output(const struct filter *filter, enum bufferevent_flush_mode mode)
{
    const struct bufferevent *open = &filter->bev.open;
    return open->enabled & EV_WRITE && evbuffer_get_length(open->output) &&
           !is_output_full(filter, mode);
}

/* One pass, until the filter does not go on or there is nothing more to do. */
static enum bufferevent_filter_result
pass_output(struct filter *filter, enum bufferevent_flush_mode mode, bool *ret_has_moved)
{
    struct bufferevent *open = &filter->bev.open, *below = &filter->bev.underlying->open;
    enum bufferevent_filter_result result;
    *ret_has_moved = false;
    do {
        ev_ssize_t limit = room(below->output, below->wm_write.high, mode);
        result = filter->process_out(open->output, below->output, limit, mode, filter->context);
        *ret_has_moved |= result == BEV_OK;
    } while (result == BEV_OK && has_output(filter, mode));
    return result;
}

/* Returns whether anything has passed. The write callback may add more, which goes on here rather
 * than in a nested call. */
static bool process_output(struct filter *filter, enum bufferevent_flush_mode mode)
{
    struct bufferevent *open = &filter->bev.open;
    if (mode == BEV_NORMAL && !has_output(filter, mode))
        return false;
    bool has_moved = false, has_moved_now;
    enum bufferevent_filter_result result;
    evbuffer_cb_clear_flags(open->output, filter->output_entry, EVBUFFER_CB_ENABLED);
    do {
        result = pass_output(filter, mode, &has_moved_now);
        has_moved |= has_moved_now;
        if (has_moved_now)
            gs_bev_trigger(&filter->bev, EV_WRITE, 0);
    } while (has_moved_now && result == BEV_OK && has_output(filter, mode));
    evbuffer_cb_set_flags(open->output, filter->output_entry, EVBUFFER_CB_ENABLED);
    if (has_moved)
        gs_bev_start_timer(&open->ev_write, &open->timeout_write);
    return has_moved;
}

static void on_output_changed(struct evbuffer *output, const struct evbuffer_cb_info *info,
                              void *argument)
{
    (void)output;
    struct filter *filter = argument;
    if (!info->n_added)
        return;
    gs_bev_hold(&filter->bev);
    process_output(filter, BEV_NORMAL);
    gs_bev_release(&filter->bev);
}

/* ---- Callbacks of the bufferevent below ---- */

static void on_read_below(struct bufferevent *below, void *argument)
{
    (void)below;
    struct filter *filter = argument;
    gs_bev_hold(&filter->bev);
    advance_input(filter);
    gs_bev_release(&filter->bev);
}

static void on_write_below(struct bufferevent *below, void *argument)
{
    (void)below;
    struct filter *filter = argument;
    gs_bev_hold(&filter->bev);
    process_output(filter, BEV_NORMAL);
    gs_bev_release(&filter->bev);
}

static void on_event_below(struct bufferevent *below, short what, void *argument)
{
    (void)below;
    struct filter *filter = argument;
    gs_bev_hold(&filter->bev);
    gs_bev_report(&filter->bev, what, 0);
    gs_bev_release(&filter->bev);
}

/* ---- The kind ---- */

static int enable(struct gs_bev *bev, short events)
{
    if (events & EV_WRITE)
        gs_bev_start_timer(&bev->open.ev_write, &bev->open.timeout_write);
    if (events & EV_READ) {
        gs_bev_start_timer(&bev->open.ev_read, &bev->open.timeout_read);
        gs_bev_hold(bev->underlying);
        gs_bev_resume(bev->underlying, EV_READ, GS_BEV_PAUSE_FILTER);
        gs_bev_release(bev->underlying);
    }
    return 0;
}

static int disable(struct gs_bev *bev, short events)
{
    if (events & EV_WRITE)
        event_del(&bev->open.ev_write);
    if (events & EV_READ) {
        event_del(&bev->open.ev_read);
        gs_bev_hold(bev->underlying);
        gs_bev_pause(bev->underlying, EV_READ, GS_BEV_PAUSE_FILTER);
        gs_bev_release(bev->underlying);
    }
    return 0;
}

static int flush(struct gs_bev *bev, short events, enum bufferevent_flush_mode mode)
{
    struct filter *filter = filter_of(bev);
    bool has_moved = false;
    if (events & EV_READ)
        has_moved |= process_input(filter, mode);
    if (events & EV_WRITE)
        has_moved |= process_output(filter, mode);
    bufferevent_flush(&bev->underlying->open, events, mode);
    return has_moved;
}

static void unlink_underlying(struct gs_bev *bev)
{
    struct gs_bev *below = bev->underlying;
    if (!(bev->options & BEV_OPT_CLOSE_ON_FREE)) {
        gs_bev_hold(below);
        if (below->open.errorcb == on_event_below)
            bufferevent_setcb(&below->open, NULL, NULL, NULL, NULL);
        gs_bev_resume(below, EV_READ, GS_BEV_PAUSE_FILTER);
        gs_bev_release(below);
    } else if (below->references < 2) {
        gs_ev_warnx("BEV_OPT_CLOSE_ON_FREE set on an bufferevent with too few references");
    } else {
        bufferevent_free(&below->open);
    }
}

static void destroy(struct gs_bev *bev)
{
    struct filter *filter = filter_of(bev);
    if (filter->free_context)
        filter->free_context(filter->context);
}

const struct bufferevent_ops gs_bev_filter_ops = {
    .enable = enable,
    .disable = disable,
    .adjust_timeouts = gs_bev_adjust_timers,
    .flush = flush,
    .unlink = unlink_underlying,
    .destroy = destroy,
};

/* Returns whether there was memory for both. */
static bool listen_to_buffers(struct filter *filter)
{
    struct bufferevent *open = &filter->bev.open;
    filter->input_entry = evbuffer_add_cb(open->input, on_input_changed, filter);
    if (filter->input_entry)
        evbuffer_cb_clear_flags(open->input, filter->input_entry, EVBUFFER_CB_ENABLED);
    filter->output_entry = evbuffer_add_cb(open->output, on_output_changed, filter);
    return filter->input_entry && filter->output_entry;
}

struct bufferevent *bufferevent_filter_new(struct bufferevent *underlying,
                                           bufferevent_filter_cb input_filter,
                                           bufferevent_filter_cb output_filter, int options,
                                           void (*free_context)(void *), void *ctx)
{
    struct gs_bev *below = gs_bev_of(underlying);
    struct filter *filter = gs_ev_calloc(1, sizeof *filter);
    if (!filter)
        return NULL;
    if (gs_bev_init(&filter->bev, underlying->ev_base, &gs_bev_filter_ops, below, options) < 0) {
        gs_ev_free(filter);
        return NULL;
    }
    filter->process_in = input_filter ? input_filter : move_all;
    filter->process_out = output_filter ? output_filter : move_all;
    gs_bev_init_timers(&filter->bev);
    if (!listen_to_buffers(filter)) { /* what is below it stays as it is */
        filter->bev.options &= ~BEV_OPT_CLOSE_ON_FREE;
        bufferevent_free(&filter->bev.open);
        return NULL;
    }
    filter->free_context = free_context;
    filter->context = ctx;
    bufferevent_setcb(underlying, on_read_below, on_write_below, on_event_below, filter);
    bufferevent_enable(underlying, EV_READ | EV_WRITE);
    gs_bev_hold(below);
    gs_bev_pause(below, EV_READ, GS_BEV_PAUSE_FILTER);
    gs_bev_release(below);
    return &filter->bev.open;
}
