/* Dates, and the monotonic clock. */
#include "compat/libevent/event/memory.h"

#include <event2/util.h>
#include <stdbool.h>
#include <stdio.h>

int evutil_date_rfc1123(char *date, size_t datelen, const struct tm *tm)
{
    static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    struct tm now;
    if (!tm) {
        time_t seconds = time(NULL);
        tm = gmtime_r(&seconds, &now);
    }
    if (!tm || tm->tm_wday < 0 || tm->tm_wday > 6 || tm->tm_mon < 0 || tm->tm_mon > 11)
        return -1;
    return evutil_snprintf(date, datelen, "%s, %02d %s %4d %02d:%02d:%02d GMT", days[tm->tm_wday],
                           tm->tm_mday, months[tm->tm_mon], 1900 + tm->tm_year, tm->tm_hour,
                           tm->tm_min, tm->tm_sec);
}

struct evutil_monotonic_timer {
    clockid_t clock;
    /* Of the time of day only: the latest time that was told, and what is added for the steps back
     * that the clock has made. */
    bool is_fallback;
    struct timeval last, correction;
};

struct evutil_monotonic_timer *evutil_monotonic_timer_new(void)
{
    struct evutil_monotonic_timer *timer = gs_ev_calloc(1, sizeof *timer);
    if (timer)
        timer->clock = CLOCK_MONOTONIC;
    return timer;
}

void evutil_monotonic_timer_free(struct evutil_monotonic_timer *timer)
{
    gs_ev_free(timer);
}

int evutil_configure_monotonic_time(struct evutil_monotonic_timer *timer, int flags)
{
    timer->is_fallback = flags & EV_MONOT_FALLBACK;
    timer->clock = flags & EV_MONOT_PRECISE ? CLOCK_MONOTONIC : CLOCK_MONOTONIC_COARSE;
    return 0;
}

static int get_fallback(struct evutil_monotonic_timer *timer, struct timeval *tp)
{
    struct timeval now;
    if (gettimeofday(&now, NULL) < 0)
        return -1;
    timeradd(&now, &timer->correction, &now);
    if (timercmp(&now, &timer->last, <)) {
        struct timeval step;
        timersub(&timer->last, &now, &step);
        timeradd(&timer->correction, &step, &timer->correction);
        now = timer->last;
    }
    timer->last = now;
    *tp = now;
    return 0;
}

int evutil_gettime_monotonic(struct evutil_monotonic_timer *timer, struct timeval *tp)
{
    if (timer->is_fallback)
        return get_fallback(timer, tp);
    struct timespec now;
    if (clock_gettime(timer->clock, &now))
        return -1;
    tp->tv_sec = now.tv_sec;
    tp->tv_usec = now.tv_nsec / 1000;
    return 0;
}
