# c-ares, for a resolver on the event loop: GS_DNS_LIBS with its target. Without it names are looked up by kernel threads.

set(GS_DNS_MODULES)
set(GS_DNS_LIBS)
if(GOSSAMER_BUILD_DNS)
    gs_find_optional(GS_DNS_LIBS ares.h cares)
    if(GS_DNS_LIBS)
        set(GS_DNS_MODULES dns)
    else()
        message(STATUS "names are looked up by kernel threads: install libc-ares-dev")
    endif()
endif()
