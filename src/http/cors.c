#include "http/cors.h"

#include "http/host.h"
#include "http/token.h"

#define LIST_MAX 255

static bool is_for_all(const struct gs_http_cors *cors)
{
    return cors->origin_count == 1 && !strcmp(cors->origins[0], "*");
}

/* ---- What is wrong with settings ---- */

/* A scheme, "://", a host, and perhaps a port, as browsers write them. */
static bool is_origin(const char *origin)
{
    const char *host = strstr(origin, "://");
    if (!host || strlen(origin) > LIST_MAX)
        return false;
    struct gs_http_text authority = {host + 3, strlen(host + 3)};
    for (const char *at = origin; *at; at++)
        if ((*at >= 'A' && *at <= 'Z') || (at < host && !gs_http_is(*at, GS_HTTP_TCHAR)))
            return false;
    return host > origin && gs_http_host_is_valid(authority);
}

static bool is_list(const char *list)
{
    struct gs_http_text rest = {list, strlen(list)}, name;
    if (rest.n > LIST_MAX)
        return false;
    for (const char *at = list; *at; at++)
        if (!gs_http_is(*at, GS_HTTP_FIELD))
            return false;
    while (gs_http_tokens_next(&rest, &name))
        if (!gs_http_is_token(name))
            return false;
    return true;
}

const char *gs_http_site_cors_problem(const struct gs_http_cors *cors)
{
    if (!cors->origin_count)
        return "lists no origin";
    if ((cors->headers && !is_list(cors->headers)) || (cors->exposed && !is_list(cors->exposed)))
        return "lists what is no name of a field, or more than 255 bytes";
    if (is_for_all(cors))
        return cors->has_credentials ? "allows credentials to all origins, which browsers ignore"
                                     : NULL;
    for (unsigned i = 0; i < cors->origin_count; i++)
        if (!is_origin(cors->origins[i]))
            return "lists what is no origin: write \"https://example.org\", or \"*\" alone";
    return NULL;
}

/* ---- Fields ---- */

struct gs_http_text gs_http_cors_origin(const struct gs_http_site *site,
                                        const struct gs_http_request *request)
{
    const struct gs_http_cors *cors = site->cors;
    struct gs_http_text fields = request->fields, origin = {NULL, 0};
    bool has_origin = fields.n && gs_http_field_next(&fields, "origin", &origin);
    for (unsigned i = 0; has_origin && i < cors->origin_count; i++)
        if (gs_http_text_is(origin, cors->origins[i]) && !is_for_all(cors))
            return origin;
    return (struct gs_http_text){NULL, 0};
}

static char *put(char *at, const char *text)
{
    size_t n = strlen(text);
    memcpy(at, text, n);
    return at + n;
}

static char *put_field(char *at, const char *name, const char *value)
{
    return put(put(put(at, name), value), "\r\n");
}

static char *put_exposed(char *at, const struct gs_http_cors *cors)
{
    return cors->exposed ? put_field(at, "Access-Control-Expose-Headers: ", cors->exposed) : at;
}

size_t gs_http_cors_fields(const struct gs_http_site *site, char *out)
{
    const struct gs_http_cors *cors = site->cors;
    char *at = out;
    if (cors && is_for_all(cors))
        at = put_exposed(put(at, "Access-Control-Allow-Origin: *\r\n"), cors);
    else if (cors)
        at = put(at, "Vary: Origin\r\n");
    return (size_t)(at - out);
}

size_t gs_http_cors_origin_fields(const struct gs_http_cors *cors, struct gs_http_text origin,
                                  char *out)
{
    char *at = put(out, "Access-Control-Allow-Origin: ");
    memcpy(at, origin.bytes, origin.n);
    at = put(at + origin.n, "\r\n");
    if (cors->has_credentials)
        at = put(at, "Access-Control-Allow-Credentials: true\r\n");
    return (size_t)(put_exposed(at, cors) - out);
}

size_t gs_http_cors_preflight_fields(const struct gs_http_cors *cors, char *out)
{
    char *at = put(out, "Access-Control-Allow-Methods: GET, HEAD, OPTIONS\r\n");
    if (cors->headers)
        at = put_field(at, "Access-Control-Allow-Headers: ", cors->headers);
    if (cors->max_age) {
        char digits[GS_HTTP_DECIMAL_MAX + 1];
        digits[gs_http_put_decimal(digits, cors->max_age)] = '\0';
        at = put_field(at, "Access-Control-Max-Age: ", digits);
    }
    return (size_t)(at - out);
}
