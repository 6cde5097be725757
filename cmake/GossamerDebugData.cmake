# What is installed is stripped, with its debug data in a file apart, which gdb, perf and addr2line find by the build ID
# (lib/debug/.build-id/) or, wherever the installation is, by the name in .gnu_debuglink (the link in .debug/ beside the
# program). The symbol table stays, because a dump names functions by it. Static libraries keep everything.

option(GOSSAMER_SPLIT_DEBUG "Install debug data apart from programs and shared libraries" ON)

# gs_install_debug_data(TARGET DIR): for a program or shared library that was installed in DIR, by a call before this one.
function(gs_install_debug_data target dir)
    if(NOT GOSSAMER_SPLIT_DEBUG OR GS_SANITIZE OR NOT CMAKE_READELF OR NOT CMAKE_OBJCOPY)
        return()
    endif()
    install(CODE "
        set(READELF \"${CMAKE_READELF}\")
        set(OBJCOPY \"${CMAKE_OBJCOPY}\")
        set(BUILT \"$<TARGET_FILE:${target}>\")
        set(DIR \"${dir}\")
        include(\"${PROJECT_SOURCE_DIR}/cmake/split_debug.cmake\")")
endfunction()
