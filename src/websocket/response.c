#include "websocket/response.h"

#include "http/host.h"
#include "http/request.h"
#include "http/token.h"

#include <strings.h>

/* ---- The URL ---- */

static bool has_port(struct gs_http_text authority)
{
    for (size_t i = authority.n; i > 0 && authority.bytes[i - 1] != ']'; i--)
        if (authority.bytes[i - 1] == ':')
            return true;
    return false;
}

static bool is_target(struct gs_http_text target)
{
    for (size_t i = 0; i < target.n; i++)
        if (!gs_http_is(target.bytes[i], GS_HTTP_TARGET))
            return false;
    return true;
}

bool gs_websocket_url_read(const char *url, struct gs_websocket_url *ret_url)
{
    bool is_secure = !strncasecmp(url, "wss://", 6);
    if (!is_secure && strncasecmp(url, "ws://", 5) != 0)
        return false;
    const char *host = url + (is_secure ? 6 : 5);
    size_t host_n = strcspn(host, "/?#");
    struct gs_http_text authority = {host, host_n}, target = {host + host_n, strlen(host + host_n)};
    if (!gs_http_host_is_valid(authority) || authority.bytes[host_n - 1] == ':' ||
        !is_target(target))
        return false;
    *ret_url = (struct gs_websocket_url){
        .is_secure = is_secure,
        .authority = authority,
        .port = has_port(authority) ? ""
                : is_secure         ? ":443"
                                    : ":80",
        .slash = *target.bytes == '/' ? "" : "/",
        .target = target,
    };
    return true;
}

/* ---- The answer ---- */

/* Fields of the answer; each of the first three must be there once, and the others may be. */
struct found {
    struct gs_http_text upgrade, accept, protocol, extensions;
    bool has_connection, is_twice;
};

static void set_once(struct found *found, struct gs_http_text *field, struct gs_http_text value)
{
    found->is_twice |= field->bytes != NULL;
    *field = value;
}

static void read_field(struct found *found, struct gs_http_text name, struct gs_http_text value)
{
    struct gs_http_text option;
    if (gs_http_text_is_nocase(name, "upgrade"))
        set_once(found, &found->upgrade, value);
    else if (gs_http_text_is_nocase(name, "sec-websocket-accept"))
        set_once(found, &found->accept, value);
    else if (gs_http_text_is_nocase(name, "sec-websocket-protocol"))
        set_once(found, &found->protocol, value);
    else if (gs_http_text_is_nocase(name, "sec-websocket-extensions"))
        set_once(found, &found->extensions, value);
    else if (gs_http_text_is_nocase(name, "connection"))
        while (gs_http_list_next(&value, &option))
            found->has_connection |= gs_http_text_is_nocase(option, "upgrade");
}

static unsigned read_status(struct gs_http_text head)
{
    const char *line = head.bytes;
    if (head.n < 14 || memcmp(line, "HTTP/1.1 ", 9) != 0)
        return 0;
    bool is_number = gs_http_is(line[9], GS_HTTP_DIGIT) && gs_http_is(line[10], GS_HTTP_DIGIT) &&
                     gs_http_is(line[11], GS_HTTP_DIGIT);
    if (!is_number || (line[12] != ' ' && line[12] != '\r'))
        return 0;
    return (unsigned)(line[9] - '0') * 100 + (unsigned)(line[10] - '0') * 10 +
           (unsigned)(line[11] - '0');
}

static struct gs_http_text fields_of(struct gs_http_text head)
{
    const char *end = memchr(head.bytes, '\n', head.n);
    size_t line_n = (size_t)(end + 1 - head.bytes);
    return (struct gs_http_text){end + 1, head.n - line_n};
}

const char *gs_websocket_response_read(struct gs_http_text head, const char key[GS_WEBSOCKET_KEY],
                                       bool is_offered, struct gs_websocket_response *ret_response)
{
    struct found found = {0};
    struct gs_http_text name, value, fields = fields_of(head);
    char accept[GS_WEBSOCKET_ACCEPT];
    *ret_response = (struct gs_websocket_response){.status = read_status(head)};
    if (!ret_response->status)
        return "the server's answer is not HTTP/1.1";
    if (ret_response->status != 101)
        return NULL;
    while (gs_http_field_next_any(&fields, &name, &value))
        read_field(&found, name, value);
    gs_websocket_answer(key, accept);
    if (found.is_twice)
        return "a field of the server's answer is there twice";
    if (!found.has_connection || !gs_http_text_is_nocase(found.upgrade, "websocket"))
        return "the server has not switched to WebSocket";
    if (found.accept.n != sizeof accept || memcmp(found.accept.bytes, accept, sizeof accept) != 0)
        return "the server has not answered the key";
    if (found.extensions.bytes &&
        !(is_offered && gs_websocket_extension_agree(found.extensions, &ret_response->agreement)))
        return "the server wants an extension that was not offered";
    ret_response->protocol = found.protocol;
    return NULL;
}
