# c-ares, for a resolver on the event loop: the target cares::cares, and GS_DNS_LIBS for the linker. Without it names are looked
# up by kernel threads.

set(GS_DNS_MODULES)
set(GS_DNS_LIBS)
if(NOT GOSSAMER_BUILD_DNS)
    return()
endif()
find_path(GS_CARES_INCLUDE_DIR ares.h)
find_library(GS_CARES_LIBRARY cares)
mark_as_advanced(GS_CARES_INCLUDE_DIR GS_CARES_LIBRARY)
if(GS_CARES_INCLUDE_DIR AND GS_CARES_LIBRARY)
    set(GS_DNS_MODULES dns)
    set(GS_DNS_LIBS cares)
    add_library(cares::cares UNKNOWN IMPORTED)
    set_target_properties(cares::cares PROPERTIES
        IMPORTED_LOCATION ${GS_CARES_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${GS_CARES_INCLUDE_DIR})
else()
    message(STATUS "names are looked up by kernel threads: install libc-ares-dev")
endif()
