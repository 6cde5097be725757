/* gossamer run: an unchanged program, its threads on user-level threads. */
#ifndef GS_CLI_RUN_H
#define GS_CLI_RUN_H

/* Replace the process by the program. argv[0] is "run". Returns only on failure: the exit status,
 * after printing a line to stderr. */
int cli_run_main(int argc, char **argv);

#endif
