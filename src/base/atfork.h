/* What the library does before a fork and after it, without the program's code in between.
 *
 * Handlers of pthread_atfork run in the reverse order before a fork, and in order afterwards. The
 * library's are registered when it is initialised, before those of the program: so they run last
 * before the fork and first after it, and the program's run with none of the library's locks held.
 * An allocator registers its own at its first use, which is earlier: the library's handlers may
 * allocate. */
#ifndef GS_BASE_ATFORK_H
#define GS_BASE_ATFORK_H

/* In the order in which their locks are acquired; they are released in the reverse order. */
enum atfork_place {
    ATFORK_THREADS,
    ATFORK_CHECKED,
    ATFORK_SIGNALS,
    ATFORK_LOOK_UPS,
    ATFORK_POOL,
    ATFORK_PLACES,
};

struct atfork {
    void (*before)(void), (*in_parent)(void), (*in_child)(void);
};

/* Called by constructors. */
void gs_atfork_add(enum atfork_place place, const struct atfork *functions);

/* Register the handlers, if they are not. Returns 0 or -ENOMEM. */
int gs_atfork_start(void);

#endif
