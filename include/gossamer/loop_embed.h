/* A loop inside another: it is given its iterations when it has something to do. Part of
 * gossamer/loop.h.
 *
 *     gs_embed_init(&embed, loop, inner, NULL);
 *     gs_embed_start(&embed);
 *
 * All that the inner loop waits for ends the outer one's wait: descriptors, timers, signals, asyncs
 * and idle watchers. Both belong to the same kernel thread. The outer one may be on any poller, the
 * inner one on epoll or io_uring: poll and select have no descriptor that the outer one could wait
 * for. The inner loop must outlast its active embedding, and must not contain the outer one.
 */
#ifndef GOSSAMER_LOOP_EMBED_H
#define GOSSAMER_LOOP_EMBED_H

#include <gossamer/loop_io.h>
#include <gossamer/loop_watcher.h>

struct gs_embed;

/* After each iteration of the inner loop. result: how many callbacks were called, or -errno: the
 * inner loop has failed, and the embedding has been stopped. */
typedef void gs_embed_fn(struct gs_embed *embed, int result);
struct gs_embed {
    union {
        struct gs_watcher watcher;
        struct gs_io io;
    };
    gs_embed_fn *callback; /* NULL: none */
    struct gs_loop *inner;
    struct gs_list link; /* of the outer loop's */
    uint32_t set_number; /* of the inner loop's set in the kernel, which may be opened anew */
};

GS_API void gs_embed_init(struct gs_embed *embed, struct gs_loop *loop, struct gs_loop *inner,
                          gs_embed_fn *callback);

/* What the kernel refuses to watch (-ELOOP: epoll allows a depth of five loops) comes as a result.
 * Returns 0, -EOPNOTSUPP (the inner loop is on poll or select), -EBUSY (it is embedded already),
 * -ENOMEM, -EMFILE or -ENFILE. */
GS_API GS_MUST_CHECK int gs_embed_start(struct gs_embed *embed);
GS_API void gs_embed_stop(struct gs_embed *embed);

#endif
