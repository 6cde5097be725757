/* The C library's <pthread.h> for programs that `gossamer cc` compiles: there a cleanup is a pair
 * of calls, without setjmp, so that the function can be converted. */
#include_next <pthread.h>

#if !defined GOSSAMER_CC_PTHREAD_H && !defined __cplusplus
#define GOSSAMER_CC_PTHREAD_H

void _pthread_cleanup_push(struct _pthread_cleanup_buffer *buffer, void (*fn)(void *),
                           void *argument);
void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *buffer, int execute);

#undef pthread_cleanup_push
#undef pthread_cleanup_pop
#define pthread_cleanup_push(fn_, argument_)                                                       \
    do {                                                                                           \
        struct _pthread_cleanup_buffer gossamer_cleanup_;                                          \
        _pthread_cleanup_push(&gossamer_cleanup_, fn_, argument_);
#define pthread_cleanup_pop(execute_)                                                              \
    _pthread_cleanup_pop(&gossamer_cleanup_, execute_);                                            \
    }                                                                                              \
    while (0)

#endif
