/* One simulated client: a user-level thread that lives like a person with a browser.
 *
 *     wait for its turn      after a pause, or, in an open loop, when the next request is due
 *     ask                    connect if need be, send the request, read the answer
 *     count                  what came of it, and how long it took
 *
 * and so on, until no request is left or the run is over. A client that waits for its turn notices
 * when the server closes the connection.
 *
 * Times are those of the system calls: a connection is timed from connect until the first send
 * succeeds, an answer from before the send to after the receive that brought its last byte. */
#ifndef GS_LOAD_CLIENT_H
#define GS_LOAD_CLIENT_H

/* A thread's function; its argument is the worker. */
void *gs_load_client_run(void *worker);

#endif
