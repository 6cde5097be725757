#include "http/range.h"

#include "http/token.h"

#define UNIT "bytes="

/* Parse a position; one that exceeds 64 bits becomes the largest number. */
static bool get_position(struct gs_http_text digits, uint64_t *ret_position)
{
    for (size_t i = 0; i < digits.n; i++)
        if (!gs_http_is(digits.bytes[i], GS_HTTP_DIGIT))
            return false;
    if (!digits.n)
        return false;
    if (!gs_http_get_decimal(digits, ret_position))
        *ret_position = UINT64_MAX;
    return true;
}

/* Parse one element of the list. Returns NONE if it is malformed, UNSATISFIABLE if it is outside of
 * the file; otherwise the range is clipped to the size. */
static enum gs_http_range_result parse_range_spec(struct gs_http_text spec, uint64_t size,
                                                  struct gs_http_range *ret_range)
{
    const char *dash = memchr(spec.bytes, '-', spec.n);
    if (!dash)
        return GS_HTTP_RANGE_NONE;
    struct gs_http_text left = {spec.bytes, (size_t)(dash - spec.bytes)};
    struct gs_http_text right = {dash + 1, spec.n - left.n - 1};

    uint64_t first, last = UINT64_MAX;
    if (right.n && !get_position(right, &last))
        return GS_HTTP_RANGE_NONE;
    if (!left.n) {
        if (!right.n || (size == 0 && last > 0))
            return GS_HTTP_RANGE_NONE;
        if (last == 0)
            return GS_HTTP_RANGE_UNSATISFIABLE;
        *ret_range = (struct gs_http_range){last < size ? size - last : 0, size - 1};
        return GS_HTTP_RANGE_SOME;
    }
    if (!get_position(left, &first) || last < first)
        return GS_HTTP_RANGE_NONE;
    if (first >= size)
        return GS_HTTP_RANGE_UNSATISFIABLE;
    *ret_range = (struct gs_http_range){first, last < size ? last : size - 1};
    return GS_HTTP_RANGE_SOME;
}

/* Returns whether the ranges overlap or are adjacent. Neither `last` is UINT64_MAX, since it is
 * below a size. */
static bool touches(const struct gs_http_range *a, const struct gs_http_range *b)
{
    return a->first <= b->last + 1 && b->first <= a->last + 1;
}

/* Add a range to the `count` ranges, which do not touch each other. If the new range touches some
 * of them, all are merged at the position of the first. Returns the new count; more than
 * GS_HTTP_RANGES_MAX if there is no room, and then nothing is written. */
static size_t add_range(struct gs_http_range *ranges, size_t count, struct gs_http_range range)
{
    size_t index = 0;
    while (index < count && !touches(&ranges[index], &range))
        index++;
    if (index == GS_HTTP_RANGES_MAX)
        return count + 1;

    size_t new_count = index + 1;
    for (size_t i = index; i < count; i++) {
        if (touches(&ranges[i], &range)) {
            if (ranges[i].first < range.first)
                range.first = ranges[i].first;
            if (ranges[i].last > range.last)
                range.last = ranges[i].last;
        } else {
            ranges[new_count++] = ranges[i];
        }
    }
    ranges[index] = range;
    return new_count;
}

enum gs_http_range_result gs_http_range_parse(struct gs_http_text value, uint64_t size,
                                              struct gs_http_range *ret_ranges, size_t *ret_count)
{
    const size_t unit = sizeof UNIT - 1;
    if (value.n < unit || !gs_http_text_is_nocase((struct gs_http_text){value.bytes, unit}, UNIT))
        return GS_HTTP_RANGE_NONE;
    struct gs_http_text rest = {value.bytes + unit, value.n - unit}, spec;
    enum gs_http_range_result result = GS_HTTP_RANGE_NONE;
    size_t count = 0;
    while (gs_http_list_next(&rest, &spec)) {
        struct gs_http_range range;
        enum gs_http_range_result one = parse_range_spec(spec, size, &range);
        if (one == GS_HTTP_RANGE_NONE)
            return one;
        if (one == GS_HTTP_RANGE_SOME)
            count = add_range(ret_ranges, count, range);
        if (count > GS_HTTP_RANGES_MAX)
            return GS_HTTP_RANGE_NONE;
        if (result != GS_HTTP_RANGE_SOME)
            result = one;
    }
    if (result == GS_HTTP_RANGE_SOME)
        *ret_count = count;
    return result;
}
