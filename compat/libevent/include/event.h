/* Everything, as programs for libevent 1.4 expect it. */
#ifndef EVENT1_EVENT_H_INCLUDED_
#define EVENT1_EVENT_H_INCLUDED_

#include <evutil.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/types.h>

#include <event2/event_struct.h>

#include <event2/event.h>

#include <event2/event_compat.h>

#include <event2/buffer.h>

#include <event2/buffer_compat.h>

#include <event2/bufferevent.h>

#include <event2/bufferevent_struct.h>

#include <event2/bufferevent_compat.h>

#endif
