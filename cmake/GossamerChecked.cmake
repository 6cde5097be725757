# The library gossamer_checked: the same sources, with checks of misuse (src/base/checked.h) and assertions. A program is
# linked with it instead of gossamer.

set(GS_CHECKED_SOURCES)
foreach(module ${modules})
    get_target_property(sources ${module} SOURCES)
    list(APPEND GS_CHECKED_SOURCES ${sources})
endforeach()
gs_library(checked_modules SOURCES ${GS_CHECKED_SOURCES})
target_compile_definitions(gossamer_checked_modules PRIVATE GS_CHECKED)
gs_http_codings(gossamer_checked_modules)
target_compile_options(gossamer_checked_modules PRIVATE -UNDEBUG ${GS_TEST_OPTIONS})
gs_add_static(checked gossamer_checked gossamer_checked_modules)
target_compile_definitions(gossamer_checked INTERFACE GS_CHECKED)
