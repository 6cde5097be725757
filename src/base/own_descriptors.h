/* Where the library's own descriptors are, for `gossamer run`. */
#ifndef GS_BASE_OWN_DESCRIPTORS_H
#define GS_BASE_OWN_DESCRIPTORS_H

#include <gossamer/own_descriptors.h>

/* From now on they have numbers from `first` on, if this many of them can be remembered. */
void gs_own_descriptors_move(int first, int count);

#endif
