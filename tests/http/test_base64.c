#include "http/base64.h"

#include "tests/test.h"

#include <errno.h>

static ssize_t read_text(const char *text, char *out, size_t size)
{
    return gs_http_base64_read(out, size, (struct gs_http_text){text, strlen(text)});
}

TEST(what_is_written_is_read)
{
    uint8_t bytes[100];
    char text[GS_HTTP_BASE64_LENGTH(sizeof bytes)], out[sizeof bytes];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 151);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        gs_http_base64_write(text, bytes, n);
        struct gs_http_text written = {text, GS_HTTP_BASE64_LENGTH(n)};
        CHECK_EQ(gs_http_base64_read(out, n, written), n);
        CHECK(!memcmp(out, bytes, n));
        CHECK_EQ(gs_http_base64_read(out, n ? n - 1 : 0, written), n ? -EINVAL : 0);
    }
}

TEST(a_text_has_one_form_only)
{
    static const char *const malformed[] = {
        "A",    "AA",       "AAA",  "A===", "====",  "AA=A",   "AB==",
        "AAB=", "AA==AAAA", "A A=", "AA-_", "AAA\n", "AAA\xff"};
    char out[16];
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++)
        CHECK_EQ(read_text(malformed[i], out, sizeof out), -EINVAL);
    CHECK_EQ(read_text("AA==", out, sizeof out), 1);
    CHECK_EQ(read_text("+/8=", out, sizeof out), 2);
    CHECK_EQ(read_text("", out, sizeof out), 0);
}
