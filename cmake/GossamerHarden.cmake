# What makes an error in memory hard to exploit: canaries in frames, checked copies, random addresses, read-only relocations,
# and marks where indirect calls may lead. It is for what is built here: neither pkg-config nor CMake gives it to users.
# Symbols are bound when the program starts in any case (GossamerBuild.cmake).

include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckPIESupported)

option(GOSSAMER_HARDEN "Build with a stack protector, checked copies, PIE, and IBT on x86-64" ON)

# gs_add_compiler_flag(FLAG VARIABLE): compile with the flag if the compiler has it.
function(gs_add_compiler_flag flag variable)
    check_c_compiler_flag(${flag} ${variable})
    if(${variable})
        add_compile_options(${flag})
    endif()
endfunction()

# gs_fortify_language(LANGUAGE CONFIG CONDITION LEVEL): if CONFIG optimises. The last of several options counts.
function(gs_fortify_language language config condition level)
    string(TOUPPER "${config}" upper)
    set(flags " ${CMAKE_${language}_FLAGS} ${CMAKE_${language}_FLAGS_${upper}}")
    if(flags MATCHES "^.* -O([^ ]*)" AND NOT CMAKE_MATCH_1 STREQUAL 0)
        set(condition $<AND:$<COMPILE_LANGUAGE:${language}>,${condition}>)
        add_compile_options("$<${condition}:-U_FORTIFY_SOURCE>" "$<${condition}:-D_FORTIFY_SOURCE=${level}>")
    endif()
endfunction()

# gs_fortify(): checked copies need optimisation, and a sanitizer checks better. Level 3 needs glibc 2.34, and gcc 12 or clang.
function(gs_fortify)
    set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
    check_c_source_compiles("#include <string.h>\nint main(void) { return 0; }" GS_HAS_FORTIFY_3)
    set(level 2)
    if(GS_HAS_FORTIFY_3)
        set(level 3)
    endif()
    foreach(language C CXX)
        gs_fortify_language(${language} "${CMAKE_BUILD_TYPE}" 1 ${level})
        foreach(config ${CMAKE_CONFIGURATION_TYPES})
            gs_fortify_language(${language} ${config} $<CONFIG:${config}> ${level})
        endforeach()
    endforeach()
endfunction()

if(GOSSAMER_HARDEN)
    check_pie_supported(LANGUAGES C)
    set(CMAKE_POSITION_INDEPENDENT_CODE ON)
    gs_add_compiler_flag(-fstack-protector-strong GS_HAS_STACK_PROTECTOR)
    add_link_options(-Wl,-z,noexecstack)
    if(NOT GS_SANITIZE)
        gs_fortify()
    endif()
    # Indirect jumps and calls may only lead to marked instructions (IBT). Not shadow stacks, which is what -fcf-protection=full
    # adds: threads switch stacks in src/thread/context/x86_64.S, and would return on a stack that is not the shadow's. Not BTI on
    # aarch64 either: a switch ends with an indirect jump to where the thread was suspended, and there is no mark after a call.
    if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
        gs_add_compiler_flag(-fcf-protection=branch GS_HAS_IBT)
    endif()
endif()
