#include "http/condition.h"

#include "http/date.h"
#include "http/etag.h"

/* Search all lines of a list field. */
static bool list_matches(const struct gs_http_request *request, const char *name,
                         struct gs_http_text etag, bool strong)
{
    struct gs_http_text fields = request->fields, value;
    while (gs_http_field_next(&fields, name, &value))
        if (gs_http_etag_list_matches(value, etag, strong))
            return true;
    return false;
}

/* Returns whether the page was not modified since the field's date; if_invalid for an invalid date,
 * which is ignored. */
static bool is_unmodified(struct gs_http_text field, const struct gs_http_page *page, int64_t now,
                          bool if_invalid)
{
    int64_t since;
    return gs_http_date_parse(field, now, &since) ? page->stat.st_mtim.tv_sec <= since : if_invalid;
}

unsigned gs_http_evaluate_preconditions(const struct gs_http_request *request,
                                        const struct gs_http_page *page, int64_t now)
{
    if (request->if_match.bytes) {
        if (!list_matches(request, "if-match", page->etag, true))
            return 412;
    } else if (request->if_unmodified_since.bytes &&
               !is_unmodified(request->if_unmodified_since, page, now, true)) {
        return 412;
    }
    if (request->if_none_match.bytes)
        return list_matches(request, "if-none-match", page->etag, false) ? 304 : 0;
    if (request->if_modified_since.bytes &&
        is_unmodified(request->if_modified_since, page, now, false))
        return 304;
    return 0;
}

/* A date identifies one state of the file only if the file was checked after that second had ended
 * (RFC 9110, 8.8.2.2); the state that is served may be as old as a stale page. */
static bool is_strong(int64_t modified, int64_t now)
{
    return now - modified > (int64_t)(GS_HTTP_STALE_IF_ERROR_NS / GS_SECOND);
}

bool gs_http_if_range_matches(const struct gs_http_request *request,
                              const struct gs_http_page *page, int64_t now)
{
    struct gs_http_text field = request->if_range;
    if (!field.bytes)
        return true;
    bool is_weak = field.n >= 2 && memcmp(field.bytes, "W/", 2) == 0; /* not "Wed" */
    if (is_weak || (field.n && field.bytes[0] == '"'))
        return field.n == page->etag.n && memcmp(field.bytes, page->etag.bytes, field.n) == 0;
    int64_t date;
    return gs_http_date_parse(field, now, &date) && date == page->stat.st_mtim.tv_sec &&
           is_strong(date, now);
}
