# find_package(gossamer 0.1 REQUIRED [COMPONENTS static shared checked tls])
#
#   gossamer::gossamer   the shared library, or, if that is not installed or BUILD_SHARED_LIBS is off, the static one
#   gossamer::static     libgossamer.a
#   gossamer::shared     libgossamer.so
#   gossamer::checked    libgossamer_checked.a, which stops at misuse, instead of one of the others
#   gossamer::tls        with the component tls: libgossamer-tls, shared or static as gossamer::gossamer is; for the static one
#                        OpenSSL 3.0 is searched (tls_shared, tls_static: one of the two)

foreach(gossamer_kind static shared checked)
    include(${CMAKE_CURRENT_LIST_DIR}/gossamer-${gossamer_kind}.cmake OPTIONAL RESULT_VARIABLE gossamer_${gossamer_kind}_FOUND)
endforeach()
if(gossamer_static_FOUND OR gossamer_checked_FOUND)
    include(CMakeFindDependencyMacro)
    find_dependency(Threads)
    # What they link with, as far as it was there; it may be in a place that only CMake knows.
    foreach(library nghttp2 cares z brotlidec brotlicommon zstd)
        if(NOT TARGET ${library}::${library})
            find_library(gossamer_${library} ${library})
            mark_as_advanced(gossamer_${library})
            add_library(${library}::${library} INTERFACE IMPORTED)
            set_property(TARGET ${library}::${library} PROPERTY
                INTERFACE_LINK_LIBRARIES $<IF:$<BOOL:${gossamer_${library}}>,${gossamer_${library}},${library}>)
        endif()
    endforeach()
endif()

# What needs OpenSSL: the static library, as a program that is linked with it does.
if(tls IN_LIST gossamer_FIND_COMPONENTS)
    if(gossamer_shared_FOUND)
        include(${CMAKE_CURRENT_LIST_DIR}/gossamer-tls_shared.cmake OPTIONAL)
    endif()
    if(gossamer_static_FOUND)
        find_package(OpenSSL 3.0 QUIET)
        if(OpenSSL_FOUND)
            include(${CMAKE_CURRENT_LIST_DIR}/gossamer-tls_static.cmake OPTIONAL)
        endif()
    endif()
    if(TARGET gossamer::tls_shared OR TARGET gossamer::tls_static)
        set(gossamer_tls_FOUND TRUE)
    endif()
endif()

foreach(gossamer_kind ${gossamer_FIND_COMPONENTS})
    if(gossamer_FIND_REQUIRED_${gossamer_kind} AND NOT gossamer_${gossamer_kind}_FOUND)
        set(gossamer_FOUND FALSE)
        set(gossamer_NOT_FOUND_MESSAGE "Gossamer's ${gossamer_kind} library is not installed.")
    endif()
endforeach()

# gossamer::ALIAS is gossamer::SHARED, or gossamer::STATIC where that is preferred or alone.
macro(gossamer_choose gossamer_alias gossamer_if_shared gossamer_if_static)
    if(TARGET gossamer::${gossamer_alias})
    elseif(TARGET gossamer::${gossamer_if_shared}
           AND NOT (TARGET gossamer::${gossamer_if_static} AND DEFINED BUILD_SHARED_LIBS AND NOT BUILD_SHARED_LIBS))
        add_library(gossamer::${gossamer_alias} ALIAS gossamer::${gossamer_if_shared})
    elseif(TARGET gossamer::${gossamer_if_static})
        add_library(gossamer::${gossamer_alias} ALIAS gossamer::${gossamer_if_static})
    endif()
endmacro()
gossamer_choose(gossamer shared static)
gossamer_choose(tls tls_shared tls_static)
unset(gossamer_kind)
