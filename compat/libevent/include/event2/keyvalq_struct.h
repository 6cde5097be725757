/* Lists of keys with values, linked as the macros of sys/queue.h want it. */
#ifndef EVENT2_KEYVALQ_STRUCT_H_INCLUDED_
#define EVENT2_KEYVALQ_STRUCT_H_INCLUDED_

#ifdef __cplusplus
extern "C" {
#endif

struct evkeyval {
    struct {
        struct evkeyval *tqe_next;
        struct evkeyval **tqe_prev;
    } next;
    char *key;
    char *value;
};

struct evkeyvalq {
    struct evkeyval *tqh_first;
    struct evkeyval **tqh_last;
};

#ifdef __cplusplus
}
#endif

#endif
