/* The choice of the event loops' poller: --poller auto, by what was measured (docs/design/loop.md).
 */
#ifndef GS_SERVE_POLLER_H
#define GS_SERVE_POLLER_H

#include "serve/arch/arch.h"

/* What the choice depends on. */
struct serve_poller_facts {
    unsigned kernel_major, kernel_minor;
    int setup;            /* the result of io_uring_setup: 0 or -errno */
    int disabled;         /* kernel.io_uring_disabled; 0 if it does not exist */
    bool is_x86;          /* the processors that were measured */
    bool is_switched_off; /* by GOSSAMER_NO_IO_URING */
};

struct serve_poller_choice {
    const char *poller;
    char reason[160];
};

/* Ask the kernel. */
void serve_poller_find_facts(struct serve_poller_facts *ret_facts);

/* Choose for the architecture. Returns false if it has no event loop. */
bool serve_poller_choose(const struct serve_arch *arch, const struct serve_poller_facts *facts,
                         struct serve_poller_choice *ret_choice);

#endif
