/* A channel of c-ares, on a loop: its sockets are watched, and its answers complete look-ups. All
 * functions are called by the loop's kernel thread. */
#ifndef GS_DNS_CHANNEL_H
#define GS_DNS_CHANNEL_H

#include "base/look_up.h"
#include "dns/config.h"

#include <ares.h>
#include <gossamer/list.h>
#include <gossamer/loop.h>

/* How many look-ups a channel gets before another one takes its place. Each makes two queries. */
#define CHANNEL_LOOK_UPS_MAX 128u

struct channel {
    struct gs_list link; /* the owner's */
    struct gs_loop *loop;
    ares_channel ares;
    struct dns_socket *sockets;
    unsigned config_version; /* with which it was created */
    unsigned asked, unanswered;
    bool is_retired; /* it gets no more look-ups */
    bool is_lost;    /* the loop was its parent's before a fork: nobody waits for answers */
};

/* Returns 0, -ENOMEM or -EIO. */
int gs_dns_channel_new(struct gs_loop *loop, const struct dns_config *config,
                       struct channel **ret_channel);

/* Ask. The look-up may be completed at once. */
void gs_dns_channel_ask(struct channel *channel, struct look_up *look_up);

/* Do what is due. */
void gs_dns_channel_tick(struct channel *channel);

/* Free it once it is retired and all is answered. Not for what c-ares calls. Returns whether it was
 * freed. */
bool gs_dns_channel_collect(struct channel *channel);

/* Free it now: look-ups without an answer are completed, or discarded if the channel is lost. */
void gs_dns_channel_free(struct channel *channel);

#endif
