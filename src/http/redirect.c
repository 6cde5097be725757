#include "http/redirect.h"

#include "http/host.h"
#include "http/pattern.h"
#include "http/token.h"

/* ---- What is wrong with a redirect ---- */

static const char *const schemes[] = {"https://", "http://"};

/* The length of the scheme and the authority; 0: the target is a path. */
static size_t origin_length(const char *target)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (!strncmp(target, schemes[i], strlen(schemes[i])))
            return strlen(schemes[i]) + strcspn(target + strlen(schemes[i]), "/?#");
    return 0;
}

/* Whatever is requested, the location is on this host: what wildcards stand for comes behind it. */
static const char *origin_problem(const char *target)
{
    size_t n = origin_length(target);
    if (!n)
        return *target == '/' && target[1] != '/' ? NULL
                                                  : "is neither a path that begins with one slash "
                                                    "nor http:// or https:// and a host";
    const char *host = strstr(target, "://") + 3;
    struct gs_http_text authority = {host, n - (size_t)(host - target)};
    if (memchr(target, '$', n))
        return "has a $ in its host, which would let clients choose it";
    return gs_http_host_is_valid(authority) ? NULL : "has no valid host";
}

static const char *characters_problem(const struct gs_http_redirect *redirect)
{
    unsigned wildcards = gs_http_pattern_wildcards(redirect->pattern);
    for (const char *at = redirect->target; *at; at++) {
        if ((unsigned char)*at >= 0x80 || *at == '\\' ||
            (*at != '#' && !gs_http_is(*at, GS_HTTP_TARGET)))
            return "has a character that no URL has: write it with a percent sign";
        if (*at != '$')
            continue;
        at++;
        if (*at != '$' && (*at < '1' || *at > '9' || (unsigned)(*at - '0') > wildcards))
            return "has a $ without the number of one of the pattern's wildcards; $$ is a dollar "
                   "sign";
    }
    return NULL;
}

const char *gs_http_site_redirect_problem(const struct gs_http_redirect *redirect)
{
    const char *problem = gs_http_pattern_problem(redirect->pattern);
    if (!problem)
        problem = origin_problem(redirect->target);
    if (!problem)
        problem = characters_problem(redirect);
    if (problem)
        return problem;
    if (strlen(redirect->target) > GS_HTTP_PATTERN_MAX)
        return "is longer than 255 bytes";
    unsigned status = redirect->status;
    return status == 301 || status == 302 || status == 307 || status == 308
               ? NULL
               : "has a status that is not 301, 302, 307 or 308";
}

/* ---- Locations ---- */

struct builder {
    char *out;
    size_t n, origin_n;
    bool is_in_path, is_too_long;
};

/* Two slashes at the beginning of a path would make a host of what follows. */
static void put(struct builder *builder, char c)
{
    size_t n = builder->n;
    if (c == '/' && builder->is_in_path && n > builder->origin_n && builder->out[n - 1] == '/')
        return;
    if (n == GS_HTTP_LOCATION_MAX)
        builder->is_too_long = true;
    else
        builder->out[builder->n++] = c;
}

static void put_escape(struct builder *builder, char c)
{
    static const char digits[] = "0123456789ABCDEF";
    put(builder, '%');
    put(builder, digits[(unsigned char)c >> 4]);
    put(builder, digits[(unsigned char)c & 15]);
}

/* A part of a path, which was decoded (RFC 3986, pchar). */
static void put_path(struct builder *builder, struct gs_http_text path)
{
    for (size_t i = 0; i < path.n; i++) {
        char c = path.bytes[i];
        bool is_plain = c > ' ' && (unsigned char)c < 0x7f && !strchr("\"#%<>?[\\]^`{|}", c);
        if (is_plain)
            put(builder, c);
        else
            put_escape(builder, c);
    }
}

/* As it was sent, in ASCII. */
static void put_query(struct builder *builder, struct gs_http_text query)
{
    if (!query.bytes)
        return;
    builder->is_in_path = false;
    put(builder, '?');
    for (size_t i = 0; i < query.n; i++) {
        if ((unsigned char)query.bytes[i] >= 0x80 || query.bytes[i] == '\\')
            put_escape(builder, query.bytes[i]);
        else
            put(builder, query.bytes[i]);
    }
}

static size_t finish(const struct builder *builder)
{
    return builder->is_too_long ? 0 : builder->n;
}

const struct gs_http_redirect *gs_http_redirect_find(const struct gs_http_site *site,
                                                     struct gs_http_text path)
{
    for (unsigned i = 0; i < site->redirect_count; i++)
        if (gs_http_pattern_match(site->redirects[i].pattern, path, NULL))
            return &site->redirects[i];
    return NULL;
}

size_t gs_http_redirect_location(const struct gs_http_redirect *redirect, struct gs_http_text path,
                                 struct gs_http_text query, char *out)
{
    struct gs_http_text captures[GS_HTTP_CAPTURES_MAX];
    const char *target = redirect->target;
    struct builder builder = {.out = out, .origin_n = origin_length(target)};
    (void)gs_http_pattern_match(redirect->pattern, path, captures);
    for (const char *at = target; *at; at++) {
        size_t n = (size_t)(at - target);
        builder.is_in_path = n >= builder.origin_n && strcspn(target, "?#") >= n;
        if (*at == '$' && *++at != '$')
            put_path(&builder, captures[*at - '1']);
        else
            put(&builder, *at);
    }
    if (!target[strcspn(target, "?#")])
        put_query(&builder, query);
    return finish(&builder);
}

size_t gs_http_path_location(struct gs_http_text path, struct gs_http_text query, char *out)
{
    struct builder builder = {.out = out, .is_in_path = true};
    put(&builder, '/');
    put_path(&builder, path);
    put_query(&builder, query);
    return finish(&builder);
}
