/* Callbacks that hear of changed buffers. */
#include "compat/libevent/buffer/buffer.h"
#include "compat/libevent/event/callback.h"
#include "compat/libevent/event/memory.h"

#include <assert.h>

/* Flags that programs can set. */
#define PUBLIC_FLAGS 0xffffu

/* Free what was removed while callbacks were being called. */
static void sweep(struct evbuffer *buffer)
{
    buffer->has_removed = false;
    struct evbuffer_cb_entry **link = &buffer->callbacks;
    while (*link) {
        struct evbuffer_cb_entry *entry = *link;
        if (entry->is_removed) {
            *link = entry->next;
            gs_ev_free(entry);
        } else {
            link = &entry->next;
        }
    }
}

/* Call the callbacks whose flags, of `mask`, are `wanted`. Entries that are removed meanwhile stay
 * in the list until the outermost walk ends. */
static void call_all(struct evbuffer *buffer, const struct evbuffer_cb_info *info, uint32_t mask,
                     uint32_t wanted)
{
    size_t length = info->orig_size + info->n_added - info->n_deleted;
    buffer->walks++;
    struct evbuffer_cb_entry *entry = buffer->callbacks;
    for (; entry; entry = entry->next) {
        if (entry->is_removed || (entry->flags & mask) != wanted)
            continue;
        if (entry->is_resized)
            entry->call.resized(buffer, info->orig_size, length, entry->argument);
        else
            entry->call.changed(buffer, info, entry->argument);
    }
    if (!--buffer->walks && buffer->has_removed)
        sweep(buffer);
}

/* With deferred callbacks, the first call after a change is only for those that are not deferred;
 * the counts go on until the second, in the loop. */
static void run(struct evbuffer *buffer, bool is_in_loop)
{
    uint32_t mask = EVBUFFER_CB_ENABLED, wanted = EVBUFFER_CB_ENABLED;
    if (buffer->is_deferred) {
        mask |= GS_EV_BUFFER_CB_NODEFER;
        if (!is_in_loop)
            wanted |= GS_EV_BUFFER_CB_NODEFER;
    }
    if (!buffer->added && !buffer->removed)
        return;
    const struct evbuffer_cb_info info = {
        .orig_size = buffer->length + buffer->removed - buffer->added,
        .n_added = buffer->added,
        .n_deleted = buffer->removed,
    };
    if (!buffer->is_deferred || is_in_loop)
        buffer->added = buffer->removed = 0;
    call_all(buffer, &info, mask, wanted);
}

static void run_deferred(struct event_callback *callback, void *argument)
{
    (void)callback;
    struct evbuffer *buffer = argument;
    const struct gs_ev_buffer_parent *parent = buffer->parent;
    void *object = buffer->parent_object;
    gs_ev_buffer_lock(buffer);
    run(buffer, true);
    gs_ev_buffer_release_and_unlock(buffer);
    if (parent)
        parent->release(object);
}

void gs_ev_buffer_changed_always(struct evbuffer *buffer)
{
    if (buffer->is_deferred && gs_ev_callback_schedule(buffer->base, &buffer->deferred)) {
        buffer->references++;
        if (buffer->parent)
            buffer->parent->hold(buffer->parent_object);
    }
    run(buffer, false);
}

int evbuffer_defer_callbacks(struct evbuffer *buffer, struct event_base *base)
{
    gs_ev_buffer_lock(buffer);
    buffer->base = base;
    buffer->is_deferred = true;
    gs_ev_callback_init(&buffer->deferred, (unsigned)event_base_get_npriorities(base) / 2,
                        run_deferred, buffer);
    gs_ev_buffer_unlock(buffer);
    return 0;
}

void gs_ev_buffer_set_parent(struct evbuffer *buffer, const struct gs_ev_buffer_parent *parent,
                             void *object)
{
    gs_ev_buffer_lock(buffer);
    buffer->parent = parent;
    buffer->parent_object = object;
    gs_ev_buffer_unlock(buffer);
}

static struct evbuffer_cb_entry *new_entry(void *argument)
{
    struct evbuffer_cb_entry *entry = gs_ev_calloc(1, sizeof *entry);
    if (entry) {
        entry->argument = argument;
        entry->flags = EVBUFFER_CB_ENABLED;
    }
    return entry;
}

static void insert(struct evbuffer *buffer, struct evbuffer_cb_entry *entry)
{
    entry->next = buffer->callbacks;
    buffer->callbacks = entry;
}

struct evbuffer_cb_entry *evbuffer_add_cb(struct evbuffer *buffer, evbuffer_cb_func cb, void *cbarg)
{
    struct evbuffer_cb_entry *entry = new_entry(cbarg);
    if (!entry)
        return NULL;
    entry->call.changed = cb;
    gs_ev_buffer_lock(buffer);
    insert(buffer, entry);
    gs_ev_buffer_unlock(buffer);
    return entry;
}

/* With the lock held. */
static void remove_entry(struct evbuffer *buffer, struct evbuffer_cb_entry *entry)
{
    entry->is_removed = true;
    buffer->has_removed = true;
    if (!buffer->walks)
        sweep(buffer);
}

int evbuffer_remove_cb_entry(struct evbuffer *buffer, struct evbuffer_cb_entry *ent)
{
    gs_ev_buffer_lock(buffer);
    remove_entry(buffer, ent);
    gs_ev_buffer_unlock(buffer);
    return 0;
}

int evbuffer_remove_cb(struct evbuffer *buffer, evbuffer_cb_func cb, void *cbarg)
{
    gs_ev_buffer_lock(buffer);
    struct evbuffer_cb_entry *entry = buffer->callbacks;
    while (entry && (entry->is_removed || entry->call.changed != cb || entry->argument != cbarg))
        entry = entry->next;
    if (entry)
        remove_entry(buffer, entry);
    gs_ev_buffer_unlock(buffer);
    return entry ? 0 : -1;
}

int evbuffer_setcb(struct evbuffer *buffer, evbuffer_cb cb, void *cbarg)
{
    struct evbuffer_cb_entry *entry = NULL;
    if (cb) {
        entry = new_entry(cbarg);
        if (!entry)
            return -1;
        entry->call.resized = cb;
        entry->is_resized = true;
    }
    gs_ev_buffer_lock(buffer);
    for (struct evbuffer_cb_entry *old = buffer->callbacks; old; old = old->next)
        old->is_removed = buffer->has_removed = true;
    if (!buffer->walks)
        sweep(buffer);
    if (entry)
        insert(buffer, entry);
    gs_ev_buffer_unlock(buffer);
    return 0;
}

int evbuffer_cb_set_flags(struct evbuffer *buffer, struct evbuffer_cb_entry *cb, ev_uint32_t flags)
{
    gs_ev_buffer_lock(buffer);
    cb->flags |= flags & PUBLIC_FLAGS;
    gs_ev_buffer_unlock(buffer);
    return 0;
}

int evbuffer_cb_clear_flags(struct evbuffer *buffer, struct evbuffer_cb_entry *cb,
                            ev_uint32_t flags)
{
    gs_ev_buffer_lock(buffer);
    cb->flags &= ~(flags & PUBLIC_FLAGS);
    gs_ev_buffer_unlock(buffer);
    return 0;
}
