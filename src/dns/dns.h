/* A resolver on an event loop: it asks the name servers of resolv.conf by c-ares, and no kernel
 * thread waits for them.
 *
 * Programs without it need no c-ares: the threads use it if it is linked in, and the pool
 * otherwise. */
#ifndef GS_DNS_DNS_H
#define GS_DNS_DNS_H

#include "base/hidden.h"
#include "base/look_up.h"

#include <gossamer/loop.h>
#include <stdint.h>

struct gs_dns;

struct gs_dns_operations {
    /* Create the resolver of a loop, in *place. gs_loop_free frees it, and clears *place. Returns 0
     * or -ENOMEM. */
    int (*new)(struct gs_loop *loop, struct gs_dns **place);

    /* Whether it answers as getaddrinfo would: config.h says when. Otherwise the pool should make
     * the look-up. Reads files if they have changed. */
    bool (*suits)(struct gs_dns *dns, const struct resolution *resolution);

    /* For gs_look_up_start, in the loop's kernel thread. The resolution must have its services. */
    struct resolver *(*resolver)(struct gs_dns *dns);
};

/* Its address is NULL where it is not linked in. */
extern GS_HIDDEN const struct gs_dns_operations gs_dns_operations __attribute__((weak));

extern GS_HIDDEN uint16_t gs_dns_port; /* of all name servers; tests change it */

#endif
