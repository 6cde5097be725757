/* Fuzzes the parser of Range fields with any bytes and any file size: the ranges are within the
 * file and do not touch each other. */
#include "http/range.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct gs_http_range *ranges, size_t count, uint64_t size)
{
    assert(count >= 1 && count <= GS_HTTP_RANGES_MAX);
    for (size_t i = 0; i < count; i++) {
        assert(ranges[i].first <= ranges[i].last && ranges[i].last < size);
        for (size_t j = 0; j < i; j++)
            assert(ranges[i].first > ranges[j].last + 1 || ranges[j].first > ranges[i].last + 1);
    }
}

/* The first byte is the number of bits by which the size is shifted, the next eight bytes are the
 * size, and the others are the value. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t file_size;
    size_t count;
    if (size < 1 + sizeof file_size)
        return 0;
    memcpy(&file_size, data + 1, sizeof file_size);
    file_size >>= data[0] % 64;
    struct gs_http_text value = {(const char *)data + 9, size - 9};

    struct gs_http_range *ranges = calloc(GS_HTTP_RANGES_MAX, sizeof *ranges);
    if (ranges && gs_http_range_parse(value, file_size, ranges, &count) == GS_HTTP_RANGE_SOME)
        check(ranges, count, file_size);
    free(ranges);
    return 0;
}
