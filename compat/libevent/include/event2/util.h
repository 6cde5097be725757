/* What networking programs need beside events: types, sockets, addresses, strings, random numbers.
 */
#ifndef EVENT2_UTIL_H_INCLUDED_
#define EVENT2_UTIL_H_INCLUDED_

#include <event2/event-config.h>
#include <event2/visibility.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

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
#define ev_off_t off_t
#define ev_socklen_t socklen_t

#define evutil_socket_t int

#ifdef __cplusplus
}
#endif

#endif
