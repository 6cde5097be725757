#include <event2/event.h>
#include <event2/event_struct.h>

const char *event_get_version(void)
{
    return EVENT__VERSION;
}

ev_uint32_t event_get_version_number(void)
{
    return EVENT__NUMERIC_VERSION;
}

size_t event_get_struct_event_size(void)
{
    return sizeof(struct event);
}
