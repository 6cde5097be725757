/* What networking programs need beside events: types, sockets, addresses, strings, random numbers.
 *
 *     struct sockaddr_storage address;
 *     int length = sizeof address;
 *     if (evutil_parse_sockaddr_port("[::1]:80", (struct sockaddr *)&address, &length))
 *         errx(1, "bad address");
 *
 * Functions that return int return 0, or -1 with errno, unless something else is said.
 *
 * Threads: any thread may call these functions.
 */
#ifndef EVENT2_UTIL_H_INCLUDED_
#define EVENT2_UTIL_H_INCLUDED_

#include <event2/event-config.h>
#include <event2/visibility.h>

/* must follow <event2/event-config.h>, which asks for extensions */
#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Types and their limits ---- */

#define ev_uint64_t uint64_t
#define ev_int64_t int64_t
#define ev_uint32_t uint32_t
#define ev_int32_t int32_t
#define ev_uint16_t uint16_t
#define ev_int16_t int16_t
#define ev_uint8_t uint8_t
#define ev_int8_t int8_t
#define ev_uintptr_t uintptr_t
#define ev_intptr_t intptr_t
#define ev_ssize_t ssize_t
#define ev_off_t ev_int64_t
#define ev_socklen_t socklen_t

#define EV_UINT64_MAX UINT64_MAX
#define EV_INT64_MAX INT64_MAX
#define EV_INT64_MIN INT64_MIN
#define EV_UINT32_MAX UINT32_MAX
#define EV_INT32_MAX INT32_MAX
#define EV_INT32_MIN INT32_MIN
#define EV_UINT16_MAX UINT16_MAX
#define EV_INT16_MAX INT16_MAX
#define EV_INT16_MIN INT16_MIN
#define EV_UINT8_MAX UINT8_MAX
#define EV_INT8_MAX INT8_MAX
#define EV_INT8_MIN INT8_MIN
#define EV_SIZE_MAX EV_UINT64_MAX
#define EV_SSIZE_MAX EV_INT64_MAX
#define EV_SSIZE_MIN ((-EV_SSIZE_MAX) - 1)

#define evutil_offsetof(type, field) offsetof(type, field)

/* ---- Times ---- */

#define evutil_gettimeofday(tv, tz) gettimeofday((tv), (tz))
#define evutil_timeradd(tvp, uvp, vvp) timeradd((tvp), (uvp), (vvp))
#define evutil_timersub(tvp, uvp, vvp) timersub((tvp), (uvp), (vvp))
#define evutil_timerclear(tvp) timerclear(tvp)
#define evutil_timerisset(tvp) timerisset(tvp)
/* For every operator; timercmp allows neither == nor >= nor <= on all systems. */
#define evutil_timercmp(tvp, uvp, cmp)                                                             \
    (((tvp)->tv_sec == (uvp)->tv_sec) ? ((tvp)->tv_usec cmp(uvp)->tv_usec)                         \
                                      : ((tvp)->tv_sec cmp(uvp)->tv_sec))

/* The date of HTTP and mail, of tm (in UTC) or, if that is NULL, of now. Returns the length of the
 * complete text, of which at most datelen - 1 bytes are written. */
EVENT2_EXPORT_SYMBOL int evutil_date_rfc1123(char *date, size_t datelen, const struct tm *tm);

/* A clock that never goes back. */
struct evutil_monotonic_timer;
EVENT2_EXPORT_SYMBOL struct evutil_monotonic_timer *evutil_monotonic_timer_new(void);
EVENT2_EXPORT_SYMBOL void evutil_monotonic_timer_free(struct evutil_monotonic_timer *timer);

#define EV_MONOT_PRECISE 1  /* exact rather than cheap */
#define EV_MONOT_FALLBACK 2 /* the time of day, kept from going back; for tests */
EVENT2_EXPORT_SYMBOL int evutil_configure_monotonic_time(struct evutil_monotonic_timer *timer,
                                                         int flags);
EVENT2_EXPORT_SYMBOL int evutil_gettime_monotonic(struct evutil_monotonic_timer *timer,
                                                  struct timeval *tp);

/* ---- Sockets ---- */

#define evutil_socket_t int
#define EVUTIL_INVALID_SOCKET -1

EVENT2_EXPORT_SYMBOL int evutil_socketpair(int d, int type, int protocol, evutil_socket_t sv[2]);
EVENT2_EXPORT_SYMBOL int evutil_make_socket_nonblocking(evutil_socket_t sock);
EVENT2_EXPORT_SYMBOL int evutil_make_socket_closeonexec(evutil_socket_t sock);
/* The address can be listened at again at once after the socket is closed. */
EVENT2_EXPORT_SYMBOL int evutil_make_listen_socket_reuseable(evutil_socket_t sock);
/* Several sockets listen at the same address and port. */
EVENT2_EXPORT_SYMBOL int evutil_make_listen_socket_reuseable_port(evutil_socket_t sock);
EVENT2_EXPORT_SYMBOL int evutil_make_listen_socket_ipv6only(evutil_socket_t sock);
/* Connections are accepted when they have data. */
EVENT2_EXPORT_SYMBOL int evutil_make_tcp_listen_socket_deferred(evutil_socket_t sock);

EVENT2_EXPORT_SYMBOL int evutil_closesocket(evutil_socket_t sock);
#define EVUTIL_CLOSESOCKET(s) evutil_closesocket(s)

#define EVUTIL_SOCKET_ERROR() (errno)
#define EVUTIL_SET_SOCKET_ERROR(errcode)                                                           \
    do {                                                                                           \
        errno = (errcode);                                                                         \
    } while (0)
#define evutil_socket_geterror(sock) (errno)
#define evutil_socket_error_to_string(errcode) (strerror(errcode))

/* ---- Strings and numbers ---- */

EVENT2_EXPORT_SYMBOL ev_int64_t evutil_strtoll(const char *s, char **endptr, int base);

/* As snprintf; with buflen 0 they return 0. */
EVENT2_EXPORT_SYMBOL int evutil_snprintf(char *buf, size_t buflen, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
EVENT2_EXPORT_SYMBOL int evutil_vsnprintf(char *buf, size_t buflen, const char *format, va_list ap)
    __attribute__((format(printf, 3, 0)));

/* Compare without regard to case, which only ASCII letters have, in every locale. */
EVENT2_EXPORT_SYMBOL int evutil_ascii_strcasecmp(const char *str1, const char *str2);
EVENT2_EXPORT_SYMBOL int evutil_ascii_strncasecmp(const char *str1, const char *str2, size_t n);

/* ---- Addresses ---- */

EVENT2_EXPORT_SYMBOL const char *evutil_inet_ntop(int af, const void *src, char *dst, size_t len);

/* Return 1, 0 if the text is no address, or -1 for an unknown family. IPv4 addresses are decimal,
 * also with leading zeros. scope: sets *indexp to that behind a %: a number or an interface. */
EVENT2_EXPORT_SYMBOL int evutil_inet_pton(int af, const char *src, void *dst);
EVENT2_EXPORT_SYMBOL int evutil_inet_pton_scope(int af, const char *src, void *dst,
                                                unsigned *indexp);

/* Parse an IPv4 address, or an IPv6 address with brackets or without. A colon and a port may follow
 * an IPv4 address and brackets. *outlen is the size of `out`, and then of the address. */
EVENT2_EXPORT_SYMBOL int evutil_parse_sockaddr_port(const char *str, struct sockaddr *out,
                                                    int *outlen);

/* Returns a number less than, equal to or greater than 0, as memcmp. */
EVENT2_EXPORT_SYMBOL int evutil_sockaddr_cmp(const struct sockaddr *sa1, const struct sockaddr *sa2,
                                             int include_port);

/* ---- Host names ---- */

#define evutil_addrinfo addrinfo

#define EVUTIL_EAI_ADDRFAMILY -9
#define EVUTIL_EAI_AGAIN EAI_AGAIN
#define EVUTIL_EAI_BADFLAGS EAI_BADFLAGS
#define EVUTIL_EAI_FAIL EAI_FAIL
#define EVUTIL_EAI_FAMILY EAI_FAMILY
#define EVUTIL_EAI_MEMORY EAI_MEMORY
#define EVUTIL_EAI_NODATA -5
#define EVUTIL_EAI_NONAME EAI_NONAME
#define EVUTIL_EAI_SERVICE EAI_SERVICE
#define EVUTIL_EAI_SOCKTYPE EAI_SOCKTYPE
#define EVUTIL_EAI_SYSTEM EAI_SYSTEM
#define EVUTIL_EAI_CANCEL -90001

#define EVUTIL_AI_PASSIVE AI_PASSIVE
#define EVUTIL_AI_CANONNAME AI_CANONNAME
#define EVUTIL_AI_NUMERICHOST AI_NUMERICHOST
#define EVUTIL_AI_NUMERICSERV AI_NUMERICSERV
#define EVUTIL_AI_V4MAPPED AI_V4MAPPED
#define EVUTIL_AI_ALL AI_ALL
#define EVUTIL_AI_ADDRCONFIG AI_ADDRCONFIG

/* As getaddrinfo: it may wait for name servers. Returns 0, or an EVUTIL_EAI_ error. */
EVENT2_EXPORT_SYMBOL int evutil_getaddrinfo(const char *nodename, const char *servname,
                                            const struct evutil_addrinfo *hints_in,
                                            struct evutil_addrinfo **res);
EVENT2_EXPORT_SYMBOL void evutil_freeaddrinfo(struct evutil_addrinfo *ai);
EVENT2_EXPORT_SYMBOL const char *evutil_gai_strerror(int err);

/* ---- Random numbers ---- */

/* Numbers of the kernel, which cannot be predicted. Nothing needs to be initialised. */
EVENT2_EXPORT_SYMBOL void evutil_secure_rng_get_bytes(void *buf, size_t n);
EVENT2_EXPORT_SYMBOL int evutil_secure_rng_init(void);
/* Fails: no file is read. */
EVENT2_EXPORT_SYMBOL int evutil_secure_rng_set_urandom_device_file(char *fname);
/* Does nothing: the kernel needs no further entropy. */
EVENT2_EXPORT_SYMBOL void evutil_secure_rng_add_bytes(const char *dat, size_t datlen);

#ifdef __cplusplus
}
#endif

#endif
