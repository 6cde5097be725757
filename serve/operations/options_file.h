/* What options and a configuration file have to do with each other. */
#ifndef GS_SERVE_OPTIONS_FILE_H
#define GS_SERVE_OPTIONS_FILE_H

#include "serve/operations/options.h"

/* Parse the command line after the values of the file were stored. What it gives takes their place,
 * lists as a whole. Returns as cli_parse does. */
GS_MUST_CHECK int serve_options_parse_over(int argc, char **argv, int *ret_first);

/* All of these return 0, or -EINVAL after one line on stderr. */

GS_MUST_CHECK int serve_options_add(struct cli_list *list, const char *text);

/* Unless the command line gives certificates, take those of the file's hosts. */
GS_MUST_CHECK int serve_options_take_certificates(struct serve_options *options);

/* Make a host of the options if no file was read. */
GS_MUST_CHECK int serve_options_make_host(struct serve_options *options);

#endif
