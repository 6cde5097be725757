/* gossamer cc: a compiler driver that compiles threaded programs into events. */
#ifndef GS_COMPILER_CC_H
#define GS_COMPILER_CC_H

/* argv[0] is "cc"; the others are options of clang, and a few more. Returns the exit status. */
int gs_cc_main_command(int argc, char **argv);

/* For --version: print what this build lacks, if anything. */
void gs_cc_print_lacks(void);

#endif
