# gs_find_optional(VAR HEADER LIBRARY...): find what may be missing. VAR becomes the list of its targets, LIBRARY::LIBRARY, in
# this order, or empty if the header or one of the libraries is not there.
function(gs_find_optional var header)
    list(GET ARGN 0 first)
    set(${var} "" PARENT_SCOPE)
    find_path(GS_${first}_INCLUDE_DIR ${header})
    mark_as_advanced(GS_${first}_INCLUDE_DIR)
    foreach(library ${ARGN})
        find_library(GS_${library}_LIBRARY ${library})
        mark_as_advanced(GS_${library}_LIBRARY)
        if(NOT GS_${first}_INCLUDE_DIR OR NOT GS_${library}_LIBRARY)
            return()
        endif()
    endforeach()
    foreach(library ${ARGN})
        if(NOT TARGET ${library}::${library}) # as for another user of it
            add_library(${library}::${library} UNKNOWN IMPORTED GLOBAL)
            set_target_properties(${library}::${library} PROPERTIES
                IMPORTED_LOCATION ${GS_${library}_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${GS_${first}_INCLUDE_DIR})
        endif()
        list(APPEND targets ${library}::${library})
    endforeach()
    set(${var} ${targets} PARENT_SCOPE)
endfunction()
