/* Strings and numbers, the same in every locale. */
#include <event2/util.h>
#include <stdio.h>
#include <stdlib.h>

ev_int64_t evutil_strtoll(const char *s, char **endptr, int base)
{
    return strtoll(s, endptr, base);
}

int evutil_vsnprintf(char *buf, size_t buflen, const char *format, va_list ap)
{
    return buflen ? vsnprintf(buf, buflen, format, ap) : 0;
}

int evutil_snprintf(char *buf, size_t buflen, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int length = evutil_vsnprintf(buf, buflen, format, ap);
    va_end(ap);
    return length;
}

static int to_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

int evutil_ascii_strncasecmp(const char *str1, const char *str2, size_t n)
{
    for (; n; n--) {
        int a = to_lower(*str1++), b = to_lower(*str2++);
        if (a != b)
            return a < b ? -1 : 1;
        if (!a)
            break;
    }
    return 0;
}

int evutil_ascii_strcasecmp(const char *str1, const char *str2)
{
    return evutil_ascii_strncasecmp(str1, str2, SIZE_MAX);
}
