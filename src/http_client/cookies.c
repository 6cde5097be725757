#include "http_client/cookies.h"

#include "http/token.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>

#define NEVER INT64_MAX
#define AT_ONCE INT64_MIN

/* A cookie, as it was received. Its texts are borrowed: from the field, the host or the target. */
struct received {
    struct gs_http_text name, value, domain, path;
    int64_t expires;
    bool has_max_age, is_secure;
    bool has_domain; /* the attribute; otherwise the domain is the host */
    bool has_path;   /* the attribute; otherwise the path is that of the target */
};

/* A cookie in the jar. */
struct cookie {
    struct gs_http_text name, value, domain, path; /* in the memory behind it */
    int64_t expires;
    uint64_t used; /* the jar's count of uses */
    bool is_secure;
    bool is_host_only;
};

struct gs_http_client_cookies {
    unsigned max, count, room;
    uint64_t uses;
    struct cookie **cookies;
};

/* ---- Texts ---- */

static struct gs_http_text text_of(const char *bytes)
{
    return (struct gs_http_text){bytes, strlen(bytes)};
}

static bool is_equal(struct gs_http_text a, struct gs_http_text b)
{
    return a.n == b.n && !memcmp(a.bytes, b.bytes, a.n);
}

/* Returns the trimmed text before the separator, which is removed with it from *rest. */
static struct gs_http_text take_until(struct gs_http_text *rest, char separator)
{
    const char *end = memchr(rest->bytes, separator, rest->n);
    struct gs_http_text taken = {rest->bytes, end ? (size_t)(end - rest->bytes) : rest->n};
    size_t n = taken.n + (end != NULL);
    rest->bytes += n;
    rest->n -= n;
    return gs_http_trim(taken);
}

static bool is_clean(struct gs_http_text text)
{
    for (size_t i = 0; i < text.n; i++)
        if (!gs_http_is(text.bytes[i], GS_HTTP_FIELD))
            return false;
    return true;
}

/* ---- Hosts and paths (5.1.3, 5.1.4) ---- */

/* A host whose last label is a number can only be an address. */
static bool is_address(struct gs_http_text host)
{
    size_t at = host.n;
    if (memchr(host.bytes, ':', host.n))
        return true;
    while (at && gs_http_is(host.bytes[at - 1], GS_HTTP_DIGIT))
        at--;
    return at < host.n && (!at || host.bytes[at - 1] == '.');
}

static bool has_inner_dot(struct gs_http_text domain)
{
    return domain.n > 2 && memchr(domain.bytes + 1, '.', domain.n - 2);
}

/* Returns whether the host is the domain or below it. */
static bool is_in_domain(struct gs_http_text host, struct gs_http_text domain)
{
    if (host.n <= domain.n)
        return is_equal(host, domain);
    size_t above = host.n - domain.n;
    return host.bytes[above - 1] == '.' && !memcmp(host.bytes + above, domain.bytes, domain.n) &&
           !is_address(host);
}

static struct gs_http_text path_of(const char *target)
{
    return (struct gs_http_text){target, strcspn(target, "?")};
}

static struct gs_http_text default_path(const char *target)
{
    struct gs_http_text path = path_of(target);
    while (path.n > 1 && path.bytes[path.n - 1] != '/')
        path.n--;
    if (path.n > 1)
        path.n--;
    return path;
}

static bool is_in_path(struct gs_http_text path, struct gs_http_text parent)
{
    if (path.n < parent.n || memcmp(path.bytes, parent.bytes, parent.n))
        return false;
    return path.n == parent.n || parent.bytes[parent.n - 1] == '/' || path.bytes[parent.n] == '/';
}

/* ---- Set-Cookie (5.2) ---- */

static void read_max_age(struct gs_http_text value, int64_t now, struct received *cookie)
{
    bool is_negative = value.n && *value.bytes == '-';
    uint64_t seconds;
    if (is_negative) {
        value.bytes++;
        value.n--;
    }
    for (size_t i = 0; i < value.n; i++)
        if (!gs_http_is(value.bytes[i], GS_HTTP_DIGIT))
            return;
    if (!value.n)
        return;
    cookie->has_max_age = true;
    cookie->expires = NEVER;
    if (!gs_http_get_decimal(value, &seconds))
        seconds = UINT64_MAX;
    if (is_negative || !seconds)
        cookie->expires = AT_ONCE;
    else if (seconds < (uint64_t)NEVER / 2)
        cookie->expires = now + (int64_t)seconds;
}

static void read_expires(struct gs_http_text value, struct received *cookie)
{
    char date[100]; /* the end of a longer one is not looked at */
    int64_t seconds;
    size_t n = value.n < sizeof date ? value.n : sizeof date - 1;
    memcpy(date, value.bytes, n);
    date[n] = '\0';
    if (!cookie->has_max_age && gs_http_client_cookie_date(date, &seconds))
        cookie->expires = seconds;
}

/* The domain stays in the case of the attribute. */
static void read_domain(struct gs_http_text value, struct received *cookie)
{
    if (value.n && *value.bytes == '.') {
        value.bytes++;
        value.n--;
    }
    if (!value.n)
        return;
    cookie->has_domain = true;
    cookie->domain = value;
}

static void read_attribute(struct gs_http_text text, int64_t now, struct received *cookie)
{
    struct gs_http_text name = take_until(&text, '='), value = gs_http_trim(text);
    if (gs_http_text_is_nocase(name, "max-age"))
        read_max_age(value, now, cookie);
    else if (gs_http_text_is_nocase(name, "expires"))
        read_expires(value, cookie);
    else if (gs_http_text_is_nocase(name, "domain"))
        read_domain(value, cookie);
    else if (gs_http_text_is_nocase(name, "secure"))
        cookie->is_secure = true;
    else if (gs_http_text_is_nocase(name, "path")) {
        cookie->has_path = value.n && *value.bytes == '/';
        cookie->path = value;
    }
}

static bool parse(struct gs_http_text rest, const struct gs_http_client_place *place, int64_t now,
                  struct received *cookie)
{
    struct gs_http_text pair = take_until(&rest, ';');
    *cookie = (struct received){.expires = NEVER, .domain = text_of(place->host)};
    if (!memchr(pair.bytes, '=', pair.n))
        return false;
    cookie->name = take_until(&pair, '=');
    cookie->value = gs_http_trim(pair);
    while (rest.n)
        read_attribute(take_until(&rest, ';'), now, cookie);
    if (!cookie->has_path)
        cookie->path = default_path(place->target);
    return cookie->name.n && is_clean(cookie->name) && is_clean(cookie->value);
}

/* ---- Which cookies are accepted (5.3) ---- */

/* The domain becomes a part of the host, and so is in lower case. */
static bool admit_domain(struct gs_http_text host, struct received *cookie)
{
    size_t n = cookie->domain.n;
    if (n > host.n)
        return false;
    struct gs_http_text end = {host.bytes + host.n - n, n};
    if (strncasecmp(end.bytes, cookie->domain.bytes, n) || !is_in_domain(host, end))
        return false;
    cookie->domain = end;
    if (!is_address(end) && has_inner_dot(end))
        return true;
    cookie->has_domain = false; /* as if it were a public suffix */
    return n == host.n;
}

static bool has_prefix(struct gs_http_text name, const char *prefix)
{
    return name.n >= strlen(prefix) && !strncasecmp(name.bytes, prefix, strlen(prefix));
}

static bool admit(const struct gs_http_client_place *place, struct received *cookie)
{
    bool is_root = cookie->has_path && cookie->path.n == 1;
    if (cookie->is_secure && !place->is_https)
        return false;
    if (has_prefix(cookie->name, "__Secure-") && !cookie->is_secure)
        return false;
    if (has_prefix(cookie->name, "__Host-") &&
        (!cookie->is_secure || cookie->has_domain || !is_root))
        return false;
    if (cookie->has_domain && !admit_domain(text_of(place->host), cookie))
        return false;
    return cookie->name.n + cookie->value.n + cookie->domain.n + cookie->path.n <=
           GS_HTTP_COOKIE_MAX;
}

/* ---- The jar ---- */

int gs_http_client_cookies_new(unsigned max, struct gs_http_client_cookies **ret_jar)
{
    struct gs_http_client_cookies *jar = calloc(1, sizeof *jar);
    if (!jar)
        return -ENOMEM;
    jar->max = max;
    *ret_jar = jar;
    return 0;
}

void gs_http_client_cookies_free(struct gs_http_client_cookies *jar)
{
    if (!jar)
        return;
    for (unsigned i = 0; i < jar->count; i++)
        free(jar->cookies[i]);
    free(jar->cookies);
    free(jar);
}

static void remove_at(struct gs_http_client_cookies *jar, unsigned at)
{
    free(jar->cookies[at]);
    jar->count--;
    memmove(jar->cookies + at, jar->cookies + at + 1, (jar->count - at) * sizeof *jar->cookies);
}

static void remove_expired(struct gs_http_client_cookies *jar, int64_t now)
{
    for (unsigned i = jar->count; i-- > 0;)
        if (jar->cookies[i]->expires <= now)
            remove_at(jar, i);
}

/* Returns the place of the cookie that the other one replaces, or the number of cookies. */
static unsigned find(const struct gs_http_client_cookies *jar, const struct received *other)
{
    unsigned i = 0;
    for (; i < jar->count; i++) {
        const struct cookie *cookie = jar->cookies[i];
        if (is_equal(cookie->name, other->name) && is_equal(cookie->domain, other->domain) &&
            is_equal(cookie->path, other->path))
            break;
    }
    return i;
}

/* Returns whether the cookie would be taken for a secure one, by servers that get both. */
static bool hides_secure(const struct gs_http_client_cookies *jar, const struct received *other)
{
    for (unsigned i = 0; i < jar->count; i++) {
        const struct cookie *cookie = jar->cookies[i];
        if (cookie->is_secure && is_equal(cookie->name, other->name) &&
            (is_in_domain(cookie->domain, other->domain) ||
             is_in_domain(other->domain, cookie->domain)) &&
            is_in_path(other->path, cookie->path))
            return true;
    }
    return false;
}

static struct gs_http_text put(char **at, struct gs_http_text text)
{
    struct gs_http_text copy = {*at, text.n};
    memcpy(*at, text.bytes, text.n);
    *at += text.n;
    return copy;
}

static struct cookie *make_cookie(const struct received *received)
{
    struct cookie *cookie = malloc(sizeof *cookie + received->name.n + received->value.n +
                                   received->domain.n + received->path.n);
    if (!cookie)
        return NULL;
    char *at = (char *)(cookie + 1);
    *cookie = (struct cookie){.name = put(&at, received->name),
                              .value = put(&at, received->value),
                              .domain = put(&at, received->domain),
                              .path = put(&at, received->path),
                              .expires = received->expires,
                              .is_secure = received->is_secure,
                              .is_host_only = !received->has_domain};
    return cookie;
}

/* Remove the cookie that was not used for the longest time if there are as many as may be; domain:
 * of which, NULL: of all. */
static void make_room(struct gs_http_client_cookies *jar, const struct gs_http_text *domain,
                      unsigned max)
{
    unsigned count = 0, oldest = 0;
    for (unsigned i = 0; i < jar->count; i++) {
        if (domain && !is_equal(jar->cookies[i]->domain, *domain))
            continue;
        if (!count++ || jar->cookies[i]->used < jar->cookies[oldest]->used)
            oldest = i;
    }
    if (count >= max)
        remove_at(jar, oldest);
}

static bool grow(struct gs_http_client_cookies *jar)
{
    if (jar->count < jar->room)
        return true;
    unsigned room = jar->room ? jar->room * 2 : 8;
    struct cookie **cookies = realloc(jar->cookies, room * sizeof *cookies);
    if (!cookies)
        return false;
    jar->cookies = cookies;
    jar->room = room;
    return true;
}

static void insert(struct gs_http_client_cookies *jar, struct cookie *cookie)
{
    make_room(jar, &cookie->domain, GS_HTTP_COOKIES_PER_DOMAIN);
    make_room(jar, NULL, jar->max);
    unsigned at = jar->count++;
    for (; at && jar->cookies[at - 1]->path.n < cookie->path.n; at--)
        jar->cookies[at] = jar->cookies[at - 1];
    jar->cookies[at] = cookie;
}

int gs_http_client_cookies_store(struct gs_http_client_cookies *jar,
                                 const struct gs_http_client_place *place, const char *set_cookie,
                                 int64_t now)
{
    struct received received;
    if (!parse(text_of(set_cookie), place, now, &received) || !admit(place, &received))
        return 0;
    remove_expired(jar, now);
    if (!place->is_https && hides_secure(jar, &received))
        return 0;
    unsigned at = find(jar, &received);
    bool is_there = at < jar->count;
    if (received.expires <= now) {
        if (is_there)
            remove_at(jar, at);
        return 0;
    }
    struct cookie *cookie = grow(jar) ? make_cookie(&received) : NULL;
    if (!cookie)
        return -ENOMEM;
    cookie->used = ++jar->uses;
    if (is_there) {
        free(jar->cookies[at]);
        jar->cookies[at] = cookie;
    } else {
        insert(jar, cookie);
    }
    return 0;
}

/* ---- What is sent (5.4) ---- */

static bool is_for(const struct cookie *cookie, const struct gs_http_client_place *place)
{
    struct gs_http_text host = text_of(place->host);
    return (place->is_https || !cookie->is_secure) &&
           is_in_path(path_of(place->target), cookie->path) &&
           (cookie->is_host_only ? is_equal(host, cookie->domain)
                                 : is_in_domain(host, cookie->domain));
}

/* Write the cookies for the place to out, and count them as used; NULL: measure only. Cookies for
 * which the field has no room are left out. Returns the length. */
static size_t join(struct gs_http_client_cookies *jar, const struct gs_http_client_place *place,
                   char *out)
{
    size_t total = 0;
    for (unsigned i = 0; i < jar->count; i++) {
        struct cookie *cookie = jar->cookies[i];
        size_t n = (total ? 2 : 0) + cookie->name.n + 1 + cookie->value.n;
        if (!is_for(cookie, place) || total + n > GS_HTTP_COOKIE_FIELD_MAX)
            continue;
        if (out) {
            char *at = out + total;
            if (total)
                put(&at, GS_HTTP_TEXT("; "));
            put(&at, cookie->name);
            put(&at, GS_HTTP_TEXT("="));
            put(&at, cookie->value);
            cookie->used = jar->uses;
        }
        total += n;
    }
    return total;
}

int gs_http_client_cookies_write(struct gs_http_client_cookies *jar,
                                 const struct gs_http_client_place *place, int64_t now,
                                 char **ret_value)
{
    remove_expired(jar, now);
    size_t n = join(jar, place, NULL);
    char *value = n ? malloc(n + 1) : NULL;
    if (n && !value)
        return -ENOMEM;
    if (value) {
        jar->uses++;
        join(jar, place, value);
        value[n] = '\0';
    }
    *ret_value = value;
    return 0;
}
