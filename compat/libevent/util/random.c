/* Random numbers of the kernel. */
#include "compat/libevent/event/log.h"

#include <event2/util.h>
#include <sys/random.h>

void evutil_secure_rng_get_bytes(void *buf, size_t n)
{
    unsigned char *bytes = buf;
    while (n) {
        ssize_t got = getrandom(bytes, n, 0);
        if (got > 0) {
            bytes += got;
            n -= (size_t)got;
        } else if (errno != EINTR) {
            gs_ev_err(1, "getrandom");
        }
    }
}

int evutil_secure_rng_init(void)
{
    return 0;
}

int evutil_secure_rng_set_urandom_device_file(char *fname)
{
    (void)fname;
    return -1;
}

void evutil_secure_rng_add_bytes(const char *dat, size_t datlen)
{
    (void)dat;
    (void)datlen;
}
