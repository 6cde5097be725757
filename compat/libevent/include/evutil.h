/* The name of event2/util.h in libevent 1.4. */
#ifndef EVENT1_EVUTIL_H_INCLUDED_
#define EVENT1_EVUTIL_H_INCLUDED_

#include <event2/util.h>

#endif
