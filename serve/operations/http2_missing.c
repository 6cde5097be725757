/* In place of the module http2, where that was not built: only HTTP/1 is spoken. */
#include "http2/http2.h"

#include <stddef.h>

const struct gs_http2_operations *gs_http2_operations(void)
{
    return NULL;
}
