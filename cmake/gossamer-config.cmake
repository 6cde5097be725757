# find_package(gossamer 0.1 REQUIRED [COMPONENTS static shared checked])
#
#   gossamer::gossamer   the shared library, or, if that is not installed or BUILD_SHARED_LIBS is off, the static one
#   gossamer::static     libgossamer.a
#   gossamer::shared     libgossamer.so
#   gossamer::checked    libgossamer_checked.a, which stops at misuse, instead of one of the others

foreach(gossamer_kind static shared checked)
    include(${CMAKE_CURRENT_LIST_DIR}/gossamer-${gossamer_kind}.cmake OPTIONAL RESULT_VARIABLE gossamer_${gossamer_kind}_FOUND)
endforeach()
if(gossamer_static_FOUND OR gossamer_checked_FOUND)
    include(CMakeFindDependencyMacro)
    find_dependency(Threads)
endif()

foreach(gossamer_kind ${gossamer_FIND_COMPONENTS})
    if(gossamer_FIND_REQUIRED_${gossamer_kind} AND NOT gossamer_${gossamer_kind}_FOUND)
        set(gossamer_FOUND FALSE)
        set(gossamer_NOT_FOUND_MESSAGE "Gossamer's ${gossamer_kind} library is not installed.")
    endif()
endforeach()

if(NOT TARGET gossamer::gossamer)
    if(gossamer_shared_FOUND AND NOT (gossamer_static_FOUND AND DEFINED BUILD_SHARED_LIBS AND NOT BUILD_SHARED_LIBS))
        add_library(gossamer::gossamer ALIAS gossamer::shared)
    elseif(gossamer_static_FOUND)
        add_library(gossamer::gossamer ALIAS gossamer::static)
    endif()
endif()
unset(gossamer_kind)
