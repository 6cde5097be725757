/* The web server, as a command. */
#ifndef GS_SERVE_SERVE_H
#define GS_SERVE_SERVE_H

#include <gossamer/api.h>

/* `gossamer serve`: argv[0] is "serve". Returns the exit status: 0 after a signal to end, 1 when
 * serving failed, 2 for wrong options, 3 when the drain timeout has cut off connections. */
GS_API int gs_serve_main(int argc, char **argv);

#endif
