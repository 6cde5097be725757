/* Content codings. */
#include "tests/http_client/encode.h"
#include "tests/http_client/scripted.h"

#define PAGE 100000u

static char plain[PAGE + 1], encoded[2 * PAGE], reply[3 * PAGE];

static void make_plain(void)
{
    unsigned state = 1;
    for (size_t i = 0; i < PAGE; i++) {
        state = state * 1103515245 + 12345;
        plain[i] = (char)('a' + (state >> 16) % 8);
    }
    plain[PAGE] = '\0';
}

/* Reply with the bytes in this coding. */
static void reply_with(const char *coding, const char *bytes, size_t n)
{
    int head = sprintf(
        reply, "HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %zu\r\n\r\n", coding, n);
    memcpy(reply + head, bytes, n);
    script.reply = reply;
    script.reply_n = (size_t)head + n;
}

static void must_decode(size_t step)
{
    struct gs_http_response *response = get("/");
    char *out = malloc(PAGE + 1);
    size_t n = 0;
    ssize_t more;
    MUST(response->is_decoded);
    MUST_EQ(response->content_length, GS_HTTP_UNKNOWN);
    while (
        (more = gs_http_response_read(response, out + n, step < PAGE + 1 - n ? step : PAGE + 1 - n,
                                      after(PATIENCE_NS))) > 0)
        n += (size_t)more;
    MUST_EQ(more, 0);
    MUST_EQ(n, PAGE);
    MUST(!memcmp(out, plain, PAGE));
    free(out);
    gs_http_response_free(response);
}

SCRIPT_TEST(each_coding_is_decoded_in_parts_of_any_size)
{
    make_plain();
    for (const struct encoding *encoding = encodings; encoding->name; encoding++) {
        size_t n = encoding->encode(plain, PAGE, encoded, sizeof encoded);
        reply_with(encoding->name, encoded, n);
        for (script.step = 0; script.step <= 5000; script.step += 5000) {
            must_decode(PAGE + 1);
            must_decode(1000);
            must_decode(7);
        }
        script.step = 0;
    }
    MUST_EQ(connection_count, encodings[0].name != NULL); /* a library may be built without any */
}

SCRIPT_TEST(a_coding_that_is_cut_anywhere_or_followed_by_something_is_an_error)
{
    static const char text[] = "a short text, a short text, a short text";
    for (const struct encoding *encoding = encodings; encoding->name; encoding++) {
        size_t n = encoding->encode(text, sizeof text - 1, encoded, sizeof encoded);
        for (size_t cut = 1; cut < n; cut++) {
            reply_with(encoding->name, encoded, cut);
            MUST_EQ(get_error("/"), -EPROTO);
            MUST_CONTAIN(gs_http_client_error(), "ends within its coding");
        }
        memcpy(encoded + n, "xyz", 3);
        reply_with(encoding->name, encoded, n + 3);
        MUST_EQ(get_error("/"), -EPROTO);
        reply_with(encoding->name, "no coding, but a text", 21);
        MUST_EQ(get_error("/"), -EPROTO);
        reply_with(encoding->name, "", 0);
        must_get("/", "");
    }
}

#ifdef GS_HTTP_GZIP
SCRIPT_TEST(members_of_gzip_follow_each_other)
{
    size_t n = encode_gzip("one", 3, encoded, sizeof encoded);
    n += encode_gzip("two", 3, encoded + n, sizeof encoded - n);
    reply_with("gzip", encoded, n);
    must_get("/", "onetwo");
}
#endif

SCRIPT_TEST(a_bomb_ends_with_an_error)
{
    static char zeros[4 << 20];
    new_client(&(struct gs_http_client_options){.max_decoded = 1 << 20});
    for (const struct encoding *encoding = encodings; encoding->name; encoding++) {
        size_t n = encoding->encode(zeros, sizeof zeros, encoded, sizeof encoded);
        reply_with(encoding->name, encoded, n);
        struct gs_http_response *response = get("/");
        char bytes[1000];
        ssize_t result;
        size_t total = 0;
        while ((result = gs_http_response_read(response, bytes, sizeof bytes, after(PATIENCE_NS))) >
               0)
            total += (size_t)result;
        MUST_EQ(result, -EFBIG);
        MUST(total <= 1 << 20);
        MUST_CONTAIN(gs_http_client_error(), "raise max_decoded");
        MUST_EQ(gs_http_response_read(response, bytes, sizeof bytes, after(PATIENCE_NS)), -EFBIG);
        gs_http_response_free(response);
    }
}

SCRIPT_TEST(what_was_not_asked_for_or_is_unknown_stays_as_it_is)
{
    static const struct gs_http_field fields[] = {{"Accept-Encoding", "gzip"},
                                                  {"Range", "bytes=0-2"}};
    reply_with("gzip", "raw", 3);
    for (int i = 0; i < 2; i++) {
        const struct gs_http_client_request request = {
            .url = url_of("/"), .fields = &fields[i], .field_count = 1};
        must_end_with(fetch(&request), "raw");
        MUST_EQ(strcasestr(seen[i], "accept-encoding") != NULL, i == 0);
    }
    reply_with("x-mine", "raw", 3);
    must_get("/", "raw");
    reply_with("gzip, br", "raw", 3);
    must_get("/", "raw");
    reply_with("identity", "raw", 3);
    must_get("/", "raw");
    new_client(&(struct gs_http_client_options){.leaves_encoded = true});
    reply_with("gzip", "raw", 3);
    request_count = 0;
    must_get("/", "raw");
    MUST(!strcasestr(seen[0], "accept-encoding"));
}

SCRIPT_TEST(the_rest_of_a_decoded_body_need_not_be_read)
{
    char byte;
    make_plain();
    for (const struct encoding *encoding = encodings; encoding->name; encoding++) {
        size_t n = encoding->encode(plain, PAGE, encoded, sizeof encoded);
        reply_with(encoding->name, encoded, n);
        struct gs_http_response *response = get("/");
        MUST_EQ(gs_http_response_read(response, &byte, 1, after(PATIENCE_NS)), 1);
        MUST_EQ(byte, plain[0]);
        gs_http_response_free(response);
    }
}
