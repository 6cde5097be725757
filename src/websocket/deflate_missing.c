/* Without zlib. */
#include "websocket/deflate.h"

#include <errno.h>

bool gs_websocket_has_deflate(void)
{
    return false;
}

int gs_websocket_code(struct gs_websocket_coding *coding)
{
    (void)coding;
    return -EOPNOTSUPP;
}
