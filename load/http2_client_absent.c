/* What load has in place of HTTP/2 without nghttp2: no run begins with --http2. */
#include "load/http2_client.h"

#include <stdlib.h>

int gs_load_fields_new(const char *request, bool is_https, struct load_fields **ret_fields)
{
    (void)request, (void)is_https, (void)ret_fields;
    return cli_fail(&gs_load_command, "--http2 needs nghttp2, without which this was built");
}

void gs_load_fields_free(struct load_fields *fields)
{
    (void)fields;
}

void *gs_load_http2_client_run(void *argument)
{
    (void)argument;
    abort();
}
