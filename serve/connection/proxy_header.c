#include "serve/connection/proxy_header.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

/* ---- Version 1: a line of text ---- */

#define TEXT_MAX 107 /* with CRLF */

static const char text_start[] = "PROXY ";

/* Returns the next word, and advances *at behind it and the space that follows. */
static const char *next_word(const char **at, const char *end, size_t *ret_n)
{
    const char *start = *at, *space = memchr(start, ' ', (size_t)(end - start));
    *ret_n = (size_t)((space ? space : end) - start);
    *at = space ? space + 1 : end;
    return start;
}

static bool is_word(const char *bytes, size_t n, const char *word)
{
    return strlen(word) == n && !memcmp(bytes, word, n);
}

/* The line is without CRLF. */
static ssize_t parse_line(const char *line, size_t n, struct serve_host *client)
{
    const char *at = line + strlen(text_start), *end = line + n;
    size_t family_n, source_n;
    const char *family = next_word(&at, end, &family_n);
    const char *source = next_word(&at, end, &source_n);
    *client = (struct serve_host){.family = AF_UNSPEC};
    if (is_word(family, family_n, "UNKNOWN"))
        return (ssize_t)n + 2;
    bool is_six = is_word(family, family_n, "TCP6");
    if (!is_six && !is_word(family, family_n, "TCP4"))
        return -EBADMSG;
    /* An address of IPv6 has several colons, one of IPv4 none: so none has a port here. */
    bool has_colon = memchr(source, ':', source_n);
    if (has_colon != is_six || memchr(source, '[', source_n) ||
        serve_host_parse(source, source_n, client))
        return -EBADMSG;
    return (ssize_t)n + 2;
}

static ssize_t parse_text(const char *bytes, size_t n, struct serve_host *client)
{
    size_t most = n < TEXT_MAX ? n : TEXT_MAX;
    const char *end = memchr(bytes, '\n', most);
    if (!end)
        return n < TEXT_MAX ? 0 : -EBADMSG;
    size_t length = (size_t)(end - bytes);
    return bytes[length - 1] == '\r' ? parse_line(bytes, length - 1, client) : -EBADMSG;
}

/* ---- Version 2: binary ---- */

static const unsigned char signature[12] = "\r\n\r\n\0\r\nQUIT\n";

enum { COMMAND_LOCAL = 0x20, COMMAND_PROXY = 0x21 };
enum { FAMILY_INET = 1, FAMILY_INET6 = 2, FAMILY_UNIX = 3 };
#define FIXED 16 /* the signature, the command, the family and the length */

/* The addresses: of the source, then of the destination; then the ports. */
static ssize_t parse_addresses(const unsigned char *bytes, size_t length, struct serve_host *client)
{
    static const struct {
        sa_family_t family;
        size_t source, least;
    } kinds[] = {
        [FAMILY_INET] = {AF_INET, 4, 12},
        [FAMILY_INET6] = {AF_INET6, 16, 36},
        [FAMILY_UNIX] = {AF_UNIX, 0, 216},
    };
    unsigned family = bytes[13] >> 4;
    if (!family)
        return 0;
    if (family > FAMILY_UNIX || length < kinds[family].least)
        return -EBADMSG;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    client->family = (uint8_t)kinds[family].family;
    memcpy(client->bytes, bytes + FIXED, kinds[family].source);
    memcpy(&six.sin6_addr, client->bytes, sizeof six.sin6_addr);
    if (client->family == AF_INET6)
        *client = serve_host_of((const struct sockaddr *)&six);
    return 0;
}

static ssize_t parse_binary(const unsigned char *bytes, size_t n, struct serve_host *client)
{
    *client = (struct serve_host){.family = AF_UNSPEC};
    if (n < FIXED)
        return 0;
    size_t length = (size_t)bytes[14] << 8 | bytes[15];
    bool is_proxied = bytes[12] == COMMAND_PROXY;
    if ((!is_proxied && bytes[12] != COMMAND_LOCAL) || FIXED + length > SERVE_PROXY_HEADER_MAX)
        return -EBADMSG;
    if (n < FIXED + length)
        return 0;
    if (is_proxied && parse_addresses(bytes, length, client))
        return -EBADMSG;
    return (ssize_t)(FIXED + length);
}

static bool starts(const void *bytes, size_t n, const void *start, size_t start_n)
{
    return !memcmp(bytes, start, n < start_n ? n : start_n);
}

ssize_t serve_proxy_header_parse(const char *bytes, size_t n, struct serve_host *ret_client)
{
    if (starts(bytes, n, signature, sizeof signature))
        return parse_binary((const unsigned char *)bytes, n, ret_client);
    if (!starts(bytes, n, text_start, strlen(text_start)))
        return -EBADMSG;
    return n > strlen(text_start) ? parse_text(bytes, n, ret_client) : 0;
}
