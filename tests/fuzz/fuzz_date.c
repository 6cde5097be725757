/* Fuzzes the date parser with any bytes at any time: a parsed date can be formatted, and parsed
 * again to the same second. */
#include "http/date.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first eight bytes are the time, the others are the text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t now, seconds, again;
    char out[GS_HTTP_DATE_LENGTH], log[GS_HTTP_DATE_LOG_LENGTH];
    if (size < sizeof now)
        return 0;
    memcpy(&now, data, sizeof now);
    struct gs_http_text text = {(const char *)data + sizeof now, size - sizeof now};
    struct gs_http_text written = {out, sizeof out};

    gs_http_date_format(now, out);
    assert(gs_http_date_parse(written, now, &seconds));
    gs_http_date_format_log(now, (int)now, log);
    assert(log[2] == '/' && log[20] == ' ');

    if (gs_http_date_parse(text, now, &seconds)) {
        gs_http_date_format(seconds, out);
        assert(gs_http_date_parse(written, 0, &again));
        assert(again == seconds);
    }
    return 0;
}
