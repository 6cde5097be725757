/* A loop inside another: the outer loop runs an iteration of the inner one when it has something to
 * do. Part of gossamer/loop.h.
 *
 *     gs_embed_init(&embed, loop, inner, NULL);
 *     gs_embed_start(&embed);
 *
 * Every event of the inner loop ends the outer loop's wait: descriptors, timers, signals, asyncs
 * and idle watchers. Both loops belong to the same kernel thread. The outer loop may use any
 * poller; the inner one uses epoll or io_uring, since poll and select have no descriptor to wait
 * for. The inner loop must outlive its active embedding, and must not contain the outer one.
 */
#ifndef GOSSAMER_LOOP_EMBED_H
#define GOSSAMER_LOOP_EMBED_H

#include <gossamer/loop_io.h>
#include <gossamer/loop_watcher.h>

GS_BEGIN_DECLS

struct gs_embed;

/* Called after each iteration of the inner loop. result: the number of callbacks called, or -errno:
 * the inner loop has failed, and the embedding has been stopped. */
typedef void gs_embed_fn(struct gs_embed *embed, int result);
struct gs_embed {
    union {
        struct gs_watcher watcher;
        struct gs_io io;
    };
    gs_embed_fn *callback; /* NULL: none */
    struct gs_loop *inner;
    struct gs_list link;        /* in the outer loop's list */
    uint32_t poller_generation; /* of the inner loop when its descriptor was last watched */
};

GS_API void gs_embed_init(struct gs_embed *embed, struct gs_loop *loop, struct gs_loop *inner,
                          gs_embed_fn *callback);

/* If the kernel refuses to watch the inner loop, the callback gets the error as its result (-ELOOP:
 * epoll allows five nested loops). Returns 0, -EOPNOTSUPP (the inner loop is on poll or select),
 * -EBUSY (it is already embedded), -ENOMEM, -EMFILE or -ENFILE. */
GS_API GS_MUST_CHECK int gs_embed_start(struct gs_embed *embed);

GS_API void gs_embed_stop(struct gs_embed *embed);

GS_END_DECLS

#endif
