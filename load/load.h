/* gossamer load: an HTTP load generator. It simulates clients and reports throughput and latency.
 */
#ifndef GS_LOAD_LOAD_H
#define GS_LOAD_LOAD_H

/* argv[0] is the name of the command. Returns the exit status: 0, 1 if requests or the run failed,
 * 2 for invalid options, 3 if the run is invalid. */
int gs_load_main(int argc, char **argv);

#endif
