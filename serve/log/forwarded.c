#include "serve/log/forwarded.h"

#include <string.h>
#include <strings.h>

const char *serve_forwarded_field(const struct serve_forwarded *forwarded)
{
    if (!forwarded->trusted.count)
        return NULL;
    return forwarded->is_standard ? "forwarded" : "x-forwarded-for";
}

struct text {
    const char *bytes;
    size_t n;
};

static struct text trim(const char *bytes, size_t n)
{
    while (n && (bytes[n - 1] == ' ' || bytes[n - 1] == '\t'))
        n--;
    while (n && (*bytes == ' ' || *bytes == '\t'))
        bytes++, n--;
    return (struct text){bytes, n};
}

/* Cut the part behind the last separator from *list. Returns false if nothing is left. */
static bool cut_last(struct text *list, char separator, struct text *ret_part)
{
    if (!list->bytes)
        return false;
    const char *at = memrchr(list->bytes, separator, list->n);
    const char *start = at ? at + 1 : list->bytes;
    *ret_part = trim(start, (size_t)(list->bytes + list->n - start));
    list->n = at ? (size_t)(at - list->bytes) : 0;
    list->bytes = at ? list->bytes : NULL;
    return true;
}

/* The value of `for` in an element of Forwarded; no bytes: it has none. */
static struct text find_for(struct text element)
{
    struct text pair;
    while (cut_last(&element, ';', &pair)) {
        if (pair.n < 4 || strncasecmp(pair.bytes, "for=", 4) != 0)
            continue;
        struct text value = {pair.bytes + 4, pair.n - 4};
        if (value.n >= 2 && value.bytes[0] == '"' && value.bytes[value.n - 1] == '"')
            value = (struct text){value.bytes + 1, value.n - 2};
        return value;
    }
    return (struct text){NULL, 0};
}

struct serve_host serve_forwarded_client(const struct serve_forwarded *forwarded,
                                         const struct serve_host *peer, const char *value)
{
    struct serve_host client = *peer, next;
    struct text list = {value, value ? strlen(value) : 0}, part;
    while (serve_networks_have(&forwarded->trusted, &client) && cut_last(&list, ',', &part)) {
        if (forwarded->is_standard)
            part = find_for(part);
        if (serve_host_parse(part.bytes, part.n, &next))
            break; /* a name that hides the address: nobody before it is known either */
        client = next;
    }
    return client;
}
