/* A system call that fails:
 *
 *     struct refused_call refused = {SYS_socket, -EMFILE};
 *     gs_sys_set_fault(refuse_call, &refused); */
#ifndef GS_TESTS_REFUSED_CALL_H
#define GS_TESTS_REFUSED_CALL_H

struct refused_call {
    long number, error;
};

static inline long refuse_call(long number, void *refused_)
{
    const struct refused_call *refused = refused_;
    return number == refused->number ? refused->error : 0;
}

#endif
