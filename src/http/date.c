#include "http/date.h"

#include "http/token.h"

#define DAY INT64_C(86400)
#define EPOCH INT64_C(719528) /* 1970-01-01 in days since 0000-01-01 */
#define FIRST_SECOND (-EPOCH * DAY)
#define LAST_SECOND INT64_C(253402300799)

static const char weekdays[7][10] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                     "Thursday", "Friday", "Saturday"};
static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/* month and weekday count from 0, day from 1. */
struct moment {
    int year, month, day, hour, minute, second, weekday;
};

static int days_of_month(int year, int month)
{
    static const uint8_t days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month] + (leap && month == 1);
}

/* Days from 0000-01-01 to the first of January: year 0 is a leap year, hence the roundings up. */
static int days_before_year(int year)
{
    return 365 * year + (year + 3) / 4 - (year + 99) / 100 + (year + 399) / 400;
}

static struct moment moment_of(int64_t seconds)
{
    if (seconds < FIRST_SECOND)
        seconds = FIRST_SECOND;
    if (seconds > LAST_SECOND)
        seconds = LAST_SECOND;
    seconds -= FIRST_SECOND;
    int days = (int)(seconds / DAY), rest = (int)(seconds % DAY);
    struct moment moment = {
        .hour = rest / 3600,
        .minute = rest / 60 % 60,
        .second = rest % 60,
        .weekday = (days + 6) % 7, /* 0000-01-01 is a Saturday */
    };
    /* 400 years have 146,097 days: the guess is right or one too many or too few. */
    moment.year = (int)(days * INT64_C(400) / 146097);
    while (days_before_year(moment.year) > days)
        moment.year--;
    while (days_before_year(moment.year + 1) <= days)
        moment.year++;
    days -= days_before_year(moment.year);
    while (days >= days_of_month(moment.year, moment.month))
        days -= days_of_month(moment.year, moment.month++);
    moment.day = days + 1;
    return moment;
}

static int64_t seconds_of(const struct moment *moment)
{
    int days = days_before_year(moment->year) + moment->day - 1;
    for (int month = 0; month < moment->month; month++)
        days += days_of_month(moment->year, month);
    int seconds = (moment->hour * 60 + moment->minute) * 60 + moment->second;
    return (days - EPOCH) * DAY + seconds;
}

static char *put_text(char *out, const char *text, size_t n)
{
    memcpy(out, text, n);
    return out + n;
}

static char *put_two(char *out, int value)
{
    out[0] = (char)('0' + value / 10);
    out[1] = (char)('0' + value % 10);
    return out + 2;
}

static char *put_time(char *out, const struct moment *moment)
{
    out = put_two(out, moment->hour);
    *out++ = ':';
    out = put_two(out, moment->minute);
    *out++ = ':';
    return put_two(out, moment->second);
}

void gs_http_date_format(int64_t unix_seconds, char out[GS_HTTP_DATE_LENGTH])
{
    struct moment moment = moment_of(unix_seconds);
    out = put_text(out, weekdays[moment.weekday], 3);
    out = put_text(out, ", ", 2);
    out = put_two(out, moment.day);
    *out++ = ' ';
    out = put_text(out, months[moment.month], 3);
    *out++ = ' ';
    out = put_two(out, moment.year / 100);
    out = put_two(out, moment.year % 100);
    *out++ = ' ';
    out = put_time(out, &moment);
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
    struct moment moment = moment_of(seconds);
    out = put_two(out, moment.day);
    *out++ = '/';
    out = put_text(out, months[moment.month], 3);
    *out++ = '/';
    out = put_two(out, moment.year / 100);
    out = put_two(out, moment.year % 100);
    *out++ = ':';
    out = put_time(out, &moment);
    *out++ = ' ';
    *out++ = offset < 0 ? '-' : '+';
    int distance = offset < 0 ? -offset : offset;
    out = put_two(out, distance / 60);
    put_two(out, distance % 60);
}

/* The readers below take their piece off the beginning of the text, or say false. */

static bool take_text(struct gs_http_text *text, const char *expected, size_t n)
{
    if (text->n < n || memcmp(text->bytes, expected, n))
        return false;
    text->bytes += n;
    text->n -= n;
    return true;
}

static bool take_number(struct gs_http_text *text, size_t digits, int *ret_value)
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

static bool take_weekday(struct gs_http_text *text, bool whole)
{
    for (int i = 0; i < 7; i++)
        if (take_text(text, weekdays[i], whole ? strlen(weekdays[i]) : 3))
            return true;
    return false;
}

static bool take_month(struct gs_http_text *text, int *ret_month)
{
    for (int i = 0; i < 12; i++)
        if (take_text(text, months[i], 3)) {
            *ret_month = i;
            return true;
        }
    return false;
}

static bool take_time(struct gs_http_text *text, struct moment *moment)
{
    return take_number(text, 2, &moment->hour) && take_text(text, ":", 1) &&
           take_number(text, 2, &moment->minute) && take_text(text, ":", 1) &&
           take_number(text, 2, &moment->second);
}

static bool take_piece(struct gs_http_text *text, const char *piece, struct moment *ret_moment)
{
    switch (*piece) {
    case 'w':
    case 'W':
        return take_weekday(text, *piece == 'W');
    case 'd':
        return take_number(text, 2, &ret_moment->day);
    case 'e':
        return take_number(text, 2, &ret_moment->day) ||
               (take_text(text, " ", 1) && take_number(text, 1, &ret_moment->day));
    case 'm':
        return take_month(text, &ret_moment->month);
    case 'y':
        return take_number(text, 2, &ret_moment->year);
    case 'Y':
        return take_number(text, 4, &ret_moment->year);
    case 't':
        return take_time(text, ret_moment);
    default:
        return take_text(text, piece, 1);
    }
}

/* Each character of the form is a piece, all others stand for themselves: w W weekday, short and
 * whole; d e day, with a leading zero or a space; m month; y Y year of two and of four digits; t
 * time. */
static bool take_form(struct gs_http_text text, const char *form, struct moment *ret_moment)
{
    for (; *form; form++)
        if (!take_piece(&text, form, ret_moment))
            return false;
    return text.n == 0;
}

/* Place within the year, for comparison only. */
static int order_in_year(const struct moment *moment)
{
    int days = moment->month * 31 + moment->day;
    return ((days * 24 + moment->hour) * 60 + moment->minute) * 60 + moment->second;
}

/* The last year that ends with these two digits and puts the date at most 50 years after now. */
static int whole_year(const struct moment *moment, int64_t now_seconds)
{
    struct moment now = moment_of(now_seconds);
    int last = now.year + 50;
    int year = last - (last + 100 - moment->year) % 100;
    if (year == last && order_in_year(moment) > order_in_year(&now))
        year -= 100;
    return year;
}

/* Whether it is in the calendar and on the clock; the leap second becomes the one before it. */
static bool settle(struct moment *moment)
{
    if (moment->second == 60 && moment->minute == 59 && moment->hour == 23)
        moment->second = 59;
    return moment->year >= 0 && moment->year <= 9999 && moment->day >= 1 &&
           moment->day <= days_of_month(moment->year, moment->month) && moment->hour < 24 &&
           moment->minute < 60 && moment->second < 60;
}

bool gs_http_date_parse(struct gs_http_text text, int64_t now_seconds, int64_t *ret_seconds)
{
    struct moment moment = {0};
    if (!take_form(text, "w, d m Y t GMT", &moment) && !take_form(text, "w m e t Y", &moment)) {
        if (!take_form(text, "W, d-m-y t GMT", &moment))
            return false;
        moment.year = whole_year(&moment, now_seconds);
    }
    if (!settle(&moment))
        return false;
    *ret_seconds = seconds_of(&moment);
    return true;
}
