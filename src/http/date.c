#include "http/date.h"

#include "http/token.h"

#define SECONDS_PER_DAY INT64_C(86400)
#define EPOCH_DAYS INT64_C(719528) /* 1970-01-01 in days since 0000-01-01 */
#define FIRST_SECOND (-EPOCH_DAYS * SECONDS_PER_DAY)
#define LAST_SECOND INT64_C(253402300799)

static const char weekdays[7][10] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                     "Thursday", "Friday", "Saturday"};
static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/* Broken-down time. month and weekday count from 0, day from 1. */
struct date_time {
    int year, month, day, hour, minute, second, weekday;
};

static int days_of_month(int year, int month)
{
    static const uint8_t days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month] + (leap && month == 1);
}

/* Days from 0000-01-01 to January 1 of the year. Year 0 is a leap year, so the quotients are
 * rounded up. */
static int days_before_year(int year)
{
    return 365 * year + (year + 3) / 4 - (year + 99) / 100 + (year + 399) / 400;
}

static struct date_time from_seconds(int64_t seconds)
{
    if (seconds < FIRST_SECOND)
        seconds = FIRST_SECOND;
    if (seconds > LAST_SECOND)
        seconds = LAST_SECOND;
    seconds -= FIRST_SECOND;
    int days = (int)(seconds / SECONDS_PER_DAY), rest = (int)(seconds % SECONDS_PER_DAY);
    struct date_time date_time = {
        .hour = rest / 3600,
        .minute = rest / 60 % 60,
        .second = rest % 60,
        .weekday = (days + 6) % 7, /* 0000-01-01 is a Saturday */
    };
    /* 400 years have 146,097 days: the estimate is exact, or one year off in either direction. */
    date_time.year = (int)(days * INT64_C(400) / 146097);
    while (days_before_year(date_time.year) > days)
        date_time.year--;
    while (days_before_year(date_time.year + 1) <= days)
        date_time.year++;
    days -= days_before_year(date_time.year);
    while (days >= days_of_month(date_time.year, date_time.month))
        days -= days_of_month(date_time.year, date_time.month++);
    date_time.day = days + 1;
    return date_time;
}

static int64_t to_seconds(const struct date_time *date_time)
{
    int days = days_before_year(date_time->year) + date_time->day - 1;
    for (int month = 0; month < date_time->month; month++)
        days += days_of_month(date_time->year, month);
    int seconds = (date_time->hour * 60 + date_time->minute) * 60 + date_time->second;
    return (days - EPOCH_DAYS) * SECONDS_PER_DAY + seconds;
}

static char *put_text(char *out, const char *text, size_t n)
{
    memcpy(out, text, n);
    return out + n;
}

static char *put_two_digits(char *out, int value)
{
    out[0] = (char)('0' + value / 10);
    out[1] = (char)('0' + value % 10);
    return out + 2;
}

static char *put_time(char *out, const struct date_time *date_time)
{
    out = put_two_digits(out, date_time->hour);
    *out++ = ':';
    out = put_two_digits(out, date_time->minute);
    *out++ = ':';
    return put_two_digits(out, date_time->second);
}

void gs_http_date_format(int64_t unix_seconds, char out[GS_HTTP_DATE_LENGTH])
{
    struct date_time date_time = from_seconds(unix_seconds);
    out = put_text(out, weekdays[date_time.weekday], 3);
    out = put_text(out, ", ", 2);
    out = put_two_digits(out, date_time.day);
    *out++ = ' ';
    out = put_text(out, months[date_time.month], 3);
    *out++ = ' ';
    out = put_two_digits(out, date_time.year / 100);
    out = put_two_digits(out, date_time.year % 100);
    *out++ = ' ';
    out = put_time(out, &date_time);
    put_text(out, " GMT", 4);
}

void gs_http_date_format_log(int64_t unix_seconds, int offset_minutes,
                             char out[GS_HTTP_DATE_LOG_LENGTH])
{
    const int limit = 99 * 60 + 59;
    int offset = offset_minutes > limit ? limit : offset_minutes < -limit ? -limit : offset_minutes;
    int64_t seconds;
    if (__builtin_add_overflow(unix_seconds, offset * 60, &seconds))
        seconds = unix_seconds;
    struct date_time date_time = from_seconds(seconds);
    out = put_two_digits(out, date_time.day);
    *out++ = '/';
    out = put_text(out, months[date_time.month], 3);
    *out++ = '/';
    out = put_two_digits(out, date_time.year / 100);
    out = put_two_digits(out, date_time.year % 100);
    *out++ = ':';
    out = put_time(out, &date_time);
    *out++ = ' ';
    *out++ = offset < 0 ? '-' : '+';
    int distance = offset < 0 ? -offset : offset;
    out = put_two_digits(out, distance / 60);
    put_two_digits(out, distance % 60);
}

void gs_http_date_format_iso(int64_t unix_seconds, char out[GS_HTTP_DATE_ISO_LENGTH])
{
    struct date_time date_time = from_seconds(unix_seconds);
    out = put_two_digits(out, date_time.year / 100);
    out = put_two_digits(out, date_time.year % 100);
    *out++ = '-';
    out = put_two_digits(out, date_time.month + 1);
    *out++ = '-';
    out = put_two_digits(out, date_time.day);
    *out++ = 'T';
    out = put_time(out, &date_time);
    *out = 'Z';
}

/* The readers below take their piece off the beginning of the text, or say false. */

static bool match_text(struct gs_http_text *text, const char *expected, size_t n)
{
    if (text->n < n || memcmp(text->bytes, expected, n))
        return false;
    text->bytes += n;
    text->n -= n;
    return true;
}

static bool parse_number(struct gs_http_text *text, size_t digits, int *ret_value)
{
    uint64_t value;
    if (text->n < digits ||
        !gs_http_get_decimal((struct gs_http_text){text->bytes, digits}, &value))
        return false;
    text->bytes += digits;
    text->n -= digits;
    *ret_value = (int)value;
    return true;
}

static bool parse_weekday(struct gs_http_text *text, bool is_long)
{
    for (int i = 0; i < 7; i++)
        if (match_text(text, weekdays[i], is_long ? strlen(weekdays[i]) : 3))
            return true;
    return false;
}

static bool parse_month(struct gs_http_text *text, int *ret_month)
{
    for (int i = 0; i < 12; i++)
        if (match_text(text, months[i], 3)) {
            *ret_month = i;
            return true;
        }
    return false;
}

static bool parse_time(struct gs_http_text *text, struct date_time *date_time)
{
    return parse_number(text, 2, &date_time->hour) && match_text(text, ":", 1) &&
           parse_number(text, 2, &date_time->minute) && match_text(text, ":", 1) &&
           parse_number(text, 2, &date_time->second);
}

static bool parse_item(struct gs_http_text *text, const char *item, struct date_time *ret_date_time)
{
    switch (*item) {
    case 'w':
    case 'W':
        return parse_weekday(text, *item == 'W');
    case 'd':
        return parse_number(text, 2, &ret_date_time->day);
    case 'e':
        return parse_number(text, 2, &ret_date_time->day) ||
               (match_text(text, " ", 1) && parse_number(text, 1, &ret_date_time->day));
    case 'm':
        return parse_month(text, &ret_date_time->month);
    case 'y':
        return parse_number(text, 2, &ret_date_time->year);
    case 'Y':
        return parse_number(text, 4, &ret_date_time->year);
    case 't':
        return parse_time(text, ret_date_time);
    default:
        return match_text(text, item, 1);
    }
}

/* The characters of the format: w W weekday, abbreviated and in full; d e day, with a leading zero
 * or a space; m month; y Y year with two and with four digits; t time. All others match themselves.
 */
static bool parse_format(struct gs_http_text text, const char *format,
                         struct date_time *ret_date_time)
{
    for (; *format; format++)
        if (!parse_item(&text, format, ret_date_time))
            return false;
    return text.n == 0;
}

/* Position within the year, for comparison only. */
static int position_in_year(const struct date_time *date_time)
{
    int days = date_time->month * 31 + date_time->day;
    return ((days * 24 + date_time->hour) * 60 + date_time->minute) * 60 + date_time->second;
}

/* The last year with these two final digits for which the date is at most 50 years after now. */
static int expand_year(const struct date_time *date_time, int64_t now_seconds)
{
    struct date_time now = from_seconds(now_seconds);
    int last = now.year + 50;
    int year = last - (last + 100 - date_time->year) % 100;
    if (year == last && position_in_year(date_time) > position_in_year(&now))
        year -= 100;
    return year;
}

/* Replace a leap second by the second before it. Returns whether the date and the time are valid.
 */
static bool normalise(struct date_time *date_time)
{
    if (date_time->second == 60 && date_time->minute == 59 && date_time->hour == 23)
        date_time->second = 59;
    return date_time->year >= 0 && date_time->year <= 9999 && date_time->day >= 1 &&
           date_time->day <= days_of_month(date_time->year, date_time->month) &&
           date_time->hour < 24 && date_time->minute < 60 && date_time->second < 60;
}

/* No stack protector: there are no arrays here, and stack is scarce where this is called. */
__attribute__((no_stack_protector)) bool
gs_http_date_parse(struct gs_http_text text, int64_t now_seconds, int64_t *ret_seconds)
{
    struct date_time date_time = {0};
    if (!parse_format(text, "w, d m Y t GMT", &date_time) &&
        !parse_format(text, "w m e t Y", &date_time)) {
        if (!parse_format(text, "W, d-m-y t GMT", &date_time))
            return false;
        date_time.year = expand_year(&date_time, now_seconds);
    }
    if (!normalise(&date_time))
        return false;
    *ret_seconds = to_seconds(&date_time);
    return true;
}
