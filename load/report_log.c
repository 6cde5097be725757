#include "http/base64.h"
#include "load/report.h"

#include <gossamer/clock.h>

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

/* HdrHistogram log, version 1.3: one line per interval, here the whole run, with a compressed V2
 * histogram in base64: cookie, length, deflated encoding. */
enum { COMPRESSED_COOKIE = 0x1c849304 | 0x10, COMPRESSED_HEADER = 8 };

static void put_u32(uint8_t *bytes, uint32_t value)
{
    value = htobe32(value);
    memcpy(bytes, &value, sizeof value);
}

static int write_compressed(FILE *file, const struct gs_histogram *histogram)
{
    int err = -ENOMEM;
    char *text = NULL;
    uint8_t *plain = malloc(gs_histogram_encoded_bound(histogram));
    if (!plain)
        return err;
    size_t n = gs_histogram_encode(histogram, plain);
    uLongf length = compressBound((uLong)n);
    uint8_t *packed = malloc(COMPRESSED_HEADER + length);
    if (!packed || compress(packed + COMPRESSED_HEADER, &length, plain, (uLong)n) != Z_OK)
        goto free_all;
    put_u32(packed, COMPRESSED_COOKIE);
    put_u32(packed + 4, (uint32_t)length);
    n = COMPRESSED_HEADER + length;
    text = malloc(GS_HTTP_BASE64_LENGTH(n));
    if (!text)
        goto free_all;
    gs_http_base64_write(text, packed, n);
    fwrite(text, 1, GS_HTTP_BASE64_LENGTH(n), file);
    err = 0;

free_all:
    free(text);
    free(packed);
    free(plain);
    return err;
}

/* Start and length are in seconds, the maximum is in milliseconds. */
static int write_interval(FILE *file, const char *tag, double seconds,
                          const struct gs_histogram *histogram)
{
    double largest_ms = (double)gs_histogram_max(histogram) / (double)GS_MILLISECOND;
    fprintf(file, "Tag=%s,0.000,%.3f,%.3f,", tag, seconds, largest_ms);
    int err = write_compressed(file, histogram);
    fputc('\n', file);
    return err;
}

int gs_load_report_log(const struct load_result *result, FILE *file)
{
    double start = (double)result->start_wall_ns / (double)GS_SECOND;
    time_t second = (time_t)(result->start_wall_ns / GS_SECOND);
    char date[64];
    struct tm utc;
    strftime(date, sizeof date, "%a %b %d %H:%M:%S UTC %Y", gmtime_r(&second, &utc));
    fprintf(file, "#[Histogram log format version 1.3]\n");
    fprintf(file, "#[StartTime: %.3f (seconds since epoch), %s]\n", start, date);
    fprintf(file, "#[BaseTime: %.3f (seconds since epoch)]\n", start);
    fputs("\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_"
          "Histogram\"\n",
          file);
    static const char *const tags[LOAD_TIME_KINDS] = {[LOAD_TIME_CONNECT] = "connect",
                                                      [LOAD_TIME_HANDSHAKE] = "handshake",
                                                      [LOAD_TIME_FIRST_BYTE] = "first_byte",
                                                      [LOAD_TIME_SERVICE] = "service",
                                                      [LOAD_TIME_RESPONSE] = "response",
                                                      [LOAD_TIME_SEND_DELAY] = "send_delay",
                                                      [LOAD_TIME_TOTAL] = "total"};
    int err = 0;
    for (int i = 0; !err && i < LOAD_TIME_KINDS; i++) {
        const struct gs_histogram *times = &result->metrics.times[i];
        bool is_optional =
            i == LOAD_TIME_SERVICE || i == LOAD_TIME_SEND_DELAY || i == LOAD_TIME_HANDSHAKE;
        if (times->count || !is_optional)
            err = write_interval(file, tags[i], result->seconds, times);
    }
    return err ? err : ferror(file) ? -EIO : 0;
}
