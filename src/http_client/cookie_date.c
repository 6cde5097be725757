/* Dates of cookies (RFC 6265, 5.1.1): any order, any separators. */
#include "http/date.h"
#include "http/token.h"
#include "http_client/cookies.h"

#include <stdio.h>
#include <strings.h>

static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/* What has been found; -1: not yet. */
struct parts {
    int hour, minute, second, day, month, year;
};

static bool is_delimiter(char c)
{
    return c == '\t' || (c >= 0x20 && c <= 0x2f) || (c >= 0x3b && c <= 0x40) ||
           (c >= 0x5b && c <= 0x60) || (c >= 0x7b && c <= 0x7e);
}

/* Read a number of `least` to `most` digits, which no further digit follows. Returns whether there
 * is one. */
static bool take_number(struct gs_http_text *text, size_t least, size_t most, int *ret_number)
{
    size_t n = 0;
    int number = 0;
    for (; n < text->n && n < most && gs_http_is(text->bytes[n], GS_HTTP_DIGIT); n++)
        number = number * 10 + (text->bytes[n] - '0');
    if (n < least || (n < text->n && gs_http_is(text->bytes[n], GS_HTTP_DIGIT)))
        return false;
    text->bytes += n;
    text->n -= n;
    *ret_number = number;
    return true;
}

static bool take_colon(struct gs_http_text *text)
{
    if (!text->n || *text->bytes != ':')
        return false;
    text->bytes++;
    text->n--;
    return true;
}

static bool is_time(struct gs_http_text token, struct parts *parts)
{
    int hour, minute, second;
    if (!take_number(&token, 1, 2, &hour) || !take_colon(&token) ||
        !take_number(&token, 1, 2, &minute) || !take_colon(&token) ||
        !take_number(&token, 1, 2, &second))
        return false;
    parts->hour = hour;
    parts->minute = minute;
    parts->second = second;
    return true;
}

static bool is_month(struct gs_http_text token, struct parts *parts)
{
    for (int i = 0; i < 12; i++)
        if (token.n >= 3 && !strncasecmp(token.bytes, months[i], 3)) {
            parts->month = i;
            return true;
        }
    return false;
}

static void read_token(struct gs_http_text token, struct parts *parts)
{
    if (parts->hour < 0 && is_time(token, parts))
        return;
    if (parts->day < 0 && take_number(&token, 1, 2, &parts->day))
        return;
    if (parts->month < 0 && is_month(token, parts))
        return;
    if (parts->year < 0 && take_number(&token, 2, 4, &parts->year))
        parts->year += parts->year < 70 ? 2000 : parts->year < 100 ? 1900 : 0;
}

bool gs_http_client_cookie_date(const char *text, int64_t *ret_seconds)
{
    struct parts parts = {-1, -1, -1, -1, -1, -1};
    char date[64];
    while (*text) {
        struct gs_http_text token = {text, 0};
        while (text[token.n] && !is_delimiter(text[token.n]))
            token.n++;
        read_token(token, &parts);
        text += token.n + (text[token.n] != '\0');
    }
    if (parts.hour < 0 || parts.day < 0 || parts.month < 0 || parts.year < 1601 ||
        parts.second > 59)
        return false;
    int n = snprintf(date, sizeof date, "Sun, %02d %s %04d %02d:%02d:%02d GMT", parts.day,
                     months[parts.month], parts.year, parts.hour, parts.minute, parts.second);
    return gs_http_date_parse((struct gs_http_text){date, (size_t)n}, 0, ret_seconds);
}
