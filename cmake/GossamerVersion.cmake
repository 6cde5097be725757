# GOSSAMER_VERSION, from include/gossamer/version.h, and GOSSAMER_ABI, the number in the name of the shared library.

# Each release that removes or changes a part of the binary interface raises it; before 1.0 any minor version may.
set(GOSSAMER_ABI 0)

function(gs_read_version ret_version)
    set(header ${CMAKE_CURRENT_LIST_DIR}/../include/gossamer/version.h)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
    set(numbers)
    foreach(part MAJOR MINOR PATCH)
        file(STRINGS ${header} line REGEX "^#define GOSSAMER_VERSION_${part} [0-9]+$")
        string(REGEX MATCH "[0-9]+$" number "${line}")
        list(APPEND numbers ${number})
    endforeach()
    list(JOIN numbers . version)
    set(${ret_version} ${version} PARENT_SCOPE)
endfunction()

gs_read_version(GOSSAMER_VERSION)
