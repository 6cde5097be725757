/* The steps of `gossamer cc`. Objects are clang's with bitcode beside the machine code, so that
 * all other tools take them as usual, and a shared library is the machine code. A program is first
 * linked as clang does it, which finds the members of archives that take part, and every error. If
 * it starts threads, the bitcode of what was linked is merged, converted and compiled by clang
 * with our plugin, and linked with the runtime. */
#include "compiler/cc.h"
#include "compiler/driver/arguments.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/folders.h"
#include "compiler/driver/link.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void print_help(void)
{
    puts("Usage: gossamer cc [OPTION...] FILE...\n\n"
         "Compile threaded C programs into event-driven ones. Takes clang's options, and is used\n"
         "in its place. Experimental.\n\n"
         "Options:\n"
         "  -h, --help          print this help\n"
         "      --report FILE   report which functions may wait, and the memory of waiting\n"
         "                      threads; JSON if FILE ends in .json, else text\n"
         "  -Wgossamer-races    warn of data that threads access without a common lock\n"
         "  -Wno-gossamer-departures\n"
         "                      do not warn of calls that differ from POSIX threads\n"
         "  -fgossamer-frames=record|slots\n"
         "                      how values survive a wait, to test the compiler (default record)\n"
         "  -fgossamer-main=stack|converted\n"
         "                      run the first thread on a stack (default), or convert it\n"
         "  -fgossamer-stress=PERCENT\n"
         "                      add waits to this percentage of the blocks, to test the compiler");
}

void gs_cc_print_lacks(void)
{
#ifndef GS_HAS_CC
    puts("without the plugin of clang: gossamer cc compiles nothing");
#endif
}

int gs_cc_main_command(int argc, char **argv)
{
    struct arguments arguments;
    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        print_help();
        return 0;
    }
    signal(SIGCHLD, SIG_DFL); /* ignored, it would hide how a command ends */
    cc_responses_expand(&argc, &argv);
    int status = cc_arguments_parse(argc, argv, &arguments);
    if (!status)
        status = cc_find_home();
    if (!status)
        status = cc_check_installation();
    if (status)
        return status;
    if (!arguments.links || !arguments.inputs)
        return cc_pass_through(&arguments);
    status = cc_make_own();
    if (!status)
        status = cc_compile_all(&arguments);
    if (status)
        return status;
    if (arguments.is_shared)
        return cc_link_library(&arguments);
    return arguments.is_partial ? cc_link_objects(&arguments) : cc_link_program(&arguments);
}
