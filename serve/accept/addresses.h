/* Addresses (RLIMIT_AS, ulimit -v): the server takes few of them at its start, so that it can serve
 * where they are limited. */
#ifndef SERVE_ADDRESSES_H
#define SERVE_ADDRESSES_H

/* Called before there are other kernel threads. */
void serve_addresses_save(void);

#endif
