# How every folder of the project declares what it holds; one function for each kind of target.

set(GS_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize= takes them")
option(GS_FUZZ "Build the fuzzers (needs clang)" OFF)

add_compile_options(
    -Wall -Wextra -Werror -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-missing-field-initializers
    -fvisibility=hidden -fno-omit-frame-pointer -fno-strict-aliasing)
# Symbols are bound when the program starts: binding one at its first call takes 3 KiB of the caller's stack.
add_link_options(-Wl,-z,relro,-z,now)
add_compile_definitions(_GNU_SOURCE GS_VERSION="${PROJECT_VERSION}")
if(GS_SANITIZE)
    add_compile_options(-fsanitize=${GS_SANITIZE} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${GS_SANITIZE})
endif()
find_package(Threads REQUIRED)

# gs_library(NAME [SOURCES FILE...] [USES LIBRARY...]): the library gossamer_NAME, of the files given, or else of this
# folder's C files and its assembler file for the processor.
function(gs_library name)
    cmake_parse_arguments(arg "" "" "SOURCES;USES" ${ARGN})
    if(NOT arg_SOURCES)
        file(GLOB arg_SOURCES CONFIGURE_DEPENDS *.c ${CMAKE_SYSTEM_PROCESSOR}.S)
    endif()
    add_library(gossamer_${name} STATIC ${arg_SOURCES})
    target_include_directories(gossamer_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
    list(TRANSFORM arg_USES PREPEND gossamer_)
    target_link_libraries(gossamer_${name} PUBLIC ${arg_USES} Threads::Threads)
endfunction()

# gs_program(NAME SOURCE... [USES LIBRARY...]): a program of its own.
function(gs_program name)
    cmake_parse_arguments(arg "" "" "USES" ${ARGN})
    add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
    list(TRANSFORM arg_USES PREPEND gossamer_)
    target_link_libraries(${name} PRIVATE ${arg_USES} Threads::Threads)
endfunction()

# gs_tests(ROOM [USES LIBRARY...] [POLLERS NAME...]): each test_*.c of this folder is a program and a test named ROOM.NAME,
# labelled ROOM, and one named ROOM.NAME.POLLER for each poller; it finds the program gossamer through the environment.
function(gs_tests room)
    cmake_parse_arguments(arg "" "" "USES;POLLERS" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS test_*.c)
    foreach(source ${sources})
        get_filename_component(stem ${source} NAME_WE)
        string(REPLACE "test_" "" stem ${stem})
        gs_program(test_${room}_${stem} ${source} USES ${arg_USES})
        add_test(NAME ${room}.${stem} COMMAND test_${room}_${stem})
        set_tests_properties(${room}.${stem} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120 LABELS ${room}
            ENVIRONMENT GOSSAMER_PROGRAM=${PROJECT_BINARY_DIR}/gossamer)
        foreach(poller ${arg_POLLERS})
            add_test(NAME ${room}.${stem}.${poller} COMMAND test_${room}_${stem})
            set_tests_properties(${room}.${stem}.${poller} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120 LABELS ${room}
                ENVIRONMENT GS_POLLER=${poller})
        endforeach()
    endforeach()
endfunction()
