/* The allocator is compiled with the program. */
#define IS_COMPILED
#include "../libraries/allocating.c" /* NOLINT(bugprone-suspicious-include) */
#include "../libraries/allocator.c"  /* NOLINT(bugprone-suspicious-include) */
