/* Without zlib. */
#include "websocket/deflate.h"

#include <errno.h>

bool gs_websocket_has_deflate(void)
{
    return false;
}

int gs_websocket_deflate(struct gs_http_text message, unsigned level, unsigned bits,
                         struct gs_http_text *ret_compressed)
{
    (void)message, (void)level, (void)bits, (void)ret_compressed;
    return -EOPNOTSUPP;
}

int gs_websocket_inflate(struct gs_http_text compressed, size_t max, char **ret_message,
                         size_t *ret_n)
{
    (void)compressed, (void)max, (void)ret_message, (void)ret_n;
    return -EOPNOTSUPP;
}
