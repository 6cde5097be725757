/* A jar of cookies in memory (RFC 6265), with the rules of its successor (RFC 6265bis) for secure
 * cookies and prefixes of names.
 *
 *     struct gs_http_client_place place = {"example.org", "/a/b?c", .is_https = true};
 *     err = gs_http_client_cookies_store(jar, &place, "id=1; Path=/a; Secure", now);
 *     err = gs_http_client_cookies_write(jar, &place, now, &value);              value: "id=1"
 *
 * The functions read no clock: `now` is in seconds since 1970. They do not lock. Ports are not told
 * apart (RFC 6265, 8.5).
 *
 * Invariants:
 *   1. Cookies are in the order in which they are sent: longer paths first, then older ones.
 *   2. No two cookies have the same name, domain and path.
 *   3. There are at most `max` cookies, and GS_HTTP_COOKIES_PER_DOMAIN of a domain.
 */
#ifndef GS_HTTP_CLIENT_COOKIES_H
#define GS_HTTP_CLIENT_COOKIES_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stdint.h>

#define GS_HTTP_COOKIE_MAX 4096u /* bytes of a cookie, with its attributes */
#define GS_HTTP_COOKIES_PER_DOMAIN 50u
#define GS_HTTP_COOKIE_FIELD_MAX 8192u /* bytes of the field Cookie */

struct gs_http_client_cookies;

/* Where a request goes. */
struct gs_http_client_place {
    const char *host;   /* in lower case; an IPv6 address is without brackets */
    const char *target; /* path and query; begins with a slash */
    bool is_https;
};

/* Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_http_client_cookies_new(unsigned max, struct gs_http_client_cookies **ret_jar);

/* NULL is accepted. */
void gs_http_client_cookies_free(struct gs_http_client_cookies *jar);

/* Keep a cookie that a response has in a field Set-Cookie, or remove one by it. One that is
 * malformed or not allowed is ignored. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_http_client_cookies_store(struct gs_http_client_cookies *jar,
                                               const struct gs_http_client_place *place,
                                               const char *set_cookie, int64_t now);

/* Make the value of the field Cookie of a request, which the caller frees; NULL: there is none.
 * Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_http_client_cookies_write(struct gs_http_client_cookies *jar,
                                               const struct gs_http_client_place *place,
                                               int64_t now, char **ret_value);

/* Parse a date as section 5.1.1 has it. Returns whether it is one. */
GS_MUST_CHECK bool gs_http_client_cookie_date(const char *text, int64_t *ret_seconds);

#endif
