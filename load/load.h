/* gossamer load: simulated clients that put a web server under load, and what they saw. */
#ifndef GS_LOAD_LOAD_H
#define GS_LOAD_LOAD_H

/* argv[0] is the command's own name. Returns the exit status: 0, 1 if there were errors or the run
 * could not be made, 2 for wrong options, 3 if the run is void. */
int gs_load_main(int argc, char **argv);

#endif
