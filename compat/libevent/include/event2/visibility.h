/* The mark of the functions of the library. Part of event2/event.h. */
#ifndef EVENT2_VISIBILITY_H_INCLUDED_
#define EVENT2_VISIBILITY_H_INCLUDED_

#include <event2/event-config.h>

#define EVENT2_EXPORT_SYMBOL __attribute__((visibility("default")))
#define EVENT2_CORE_EXPORT_SYMBOL EVENT2_EXPORT_SYMBOL

#endif
