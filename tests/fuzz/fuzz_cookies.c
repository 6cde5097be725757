/* Fuzzes the jar of cookies: whatever servers set, a field is short and has no control characters.
 */
#include "http/token.h"
#include "http_client/cookies.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each line is a field; its first byte selects the place. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct gs_http_client_place places[] = {{"a.example.org", "/", true},
                                                         {"example.org", "/a/b?c", false},
                                                         {"b.a.example.org", "/a/", false},
                                                         {"127.0.0.1", "/a", true}};
    struct gs_http_client_cookies *jar;
    char *text = malloc(size + 1), *value, *line, *rest = text;
    int err = gs_http_client_cookies_new(60, &jar);
    assert(text && !err);
    memcpy(text, data, size);
    text[size] = '\0';
    for (int64_t now = 0; (line = strsep(&rest, "\n")); now++) {
        const struct gs_http_client_place *place = &places[(unsigned char)*line % 4];
        err = gs_http_client_cookies_store(jar, place, *line ? line + 1 : line, now);
        assert(!err);
        err = gs_http_client_cookies_write(jar, place, now, &value);
        assert(!err && (!value || strlen(value) <= GS_HTTP_COOKIE_FIELD_MAX));
        for (const char *at = value; at && *at; at++)
            assert(gs_http_is(*at, GS_HTTP_FIELD));
        free(value);
    }
    gs_http_client_cookies_free(jar);
    free(text);
    return 0;
}
