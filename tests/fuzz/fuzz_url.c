/* Fuzzes URLs and references: a text, and behind the first newline a reference to it. What is
 * written is a URL again, which is written as it is, and whose target fits into a request line. */
#include "http/url.h"

#include "http/host.h"
#include "http/text.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_clean(const char *text)
{
    for (; *text; text++)
        assert(*text > ' ' && *text < 0x7f);
}

static char *write_url(const struct gs_http_url *url)
{
    const char *target;
    char *out = malloc(gs_http_url_room(url));
    assert(out);
    gs_http_url_write(url, out, &target);
    assert(strlen(out) < gs_http_url_room(url));
    assert(target > out && target[0] == '/' && !strchr(target, '#'));
    check_clean(target);
    return out;
}

static void check_basic(const struct gs_http_url *url)
{
    char *out = malloc(GS_HTTP_BASIC_ROOM(url->user_length));
    assert(out);
    gs_http_url_write_basic(url, out);
    assert(strlen(out) < GS_HTTP_BASIC_ROOM(url->user_length));
    check_clean(out + 6);
    free(out);
}

/* Returns the URL as it is written, which the caller frees; NULL: the text is none. */
static char *check_url(const char *text)
{
    struct gs_http_url url, again;
    const char *reason = NULL;
    if (gs_http_url_parse(text, &url, &reason)) {
        assert(reason);
        return NULL;
    }
    assert(gs_http_host_is_valid((struct gs_http_text){url.authority, strlen(url.authority)}));
    assert(url.host[0] && atoi(url.port) > 0);
    check_basic(&url);
    char *written = write_url(&url);
    int err = gs_http_url_parse(written, &again, &reason);
    assert(!err || strlen(written) > GS_HTTP_URL_MAX);
    if (!err) {
        char *twice = write_url(&again);
        assert(!strcmp(written, twice) && !again.user_length && again.has_scheme);
        assert(again.is_https == url.is_https && !strcmp(again.port, url.port));
        free(twice);
    }
    return written;
}

static void check_reference(const char *base, const char *reference)
{
    size_t room = strlen(base) + 3 * strlen(reference) + 4;
    char *out = malloc(room);
    assert(out);
    if (!gs_http_url_resolve(base, reference, out, room)) {
        assert(strlen(out) < room);
        free(check_url(out));
    }
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    assert(text);
    memcpy(text, data, size);
    text[size] = '\0';
    char *newline = strchr(text, '\n'), *reference = newline ? newline + 1 : text + size;
    if (newline)
        *newline = '\0';
    char *base = check_url(text);
    check_reference(base ? base : "http://a/b/c/d;p?q", reference);
    free(base);
    free(text);
    return 0;
}
