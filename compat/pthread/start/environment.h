/* How the library reaches the children of a program: by their environment. */
#ifndef GS_COMPAT_PTHREAD_ENVIRONMENT_H
#define GS_COMPAT_PTHREAD_ENVIRONMENT_H

/* Read the options of `gossamer run` and remember what children need. */
void gs_environment_start(void);

/* Returns the environment with what is missing for a child to run under this library, or NULL if
 * nothing is missing, children are not to run under it, or there is no memory. */
char **gs_environment_for_child(char *const *environment);
void gs_environment_free(char **environment);

#endif
