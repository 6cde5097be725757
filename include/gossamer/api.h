/* Attributes and language macros. All public headers compile as C11 and as C++17, 20 and 23, with
 * GCC and Clang. */
#ifndef GOSSAMER_API_H
#define GOSSAMER_API_H

/* The symbol belongs to the public interface: the libraries define no others. */
#define GS_API __attribute__((visibility("default")))

/* The result says whether the call failed, and must be used: (void)!f() ignores it on purpose. */
#define GS_MUST_CHECK __attribute__((warn_unused_result))

#define GS_NORETURN __attribute__((noreturn))

/* The function has a format as printf(3) at one position, and its arguments from another one on; 0:
 * a va_list. */
#define GS_PRINTF(format_, arguments_) __attribute__((format(printf, format_, arguments_)))

/* GS_ATOMIC_MEMBER(type): a member of a public struct that several threads access. It belongs to
 * the library. C++ only needs its size and alignment. Inline functions access it with the
 * compiler's __atomic builtins. */
#ifdef __cplusplus
/* g++ -Wshadow would warn of a function that has the name of a struct, as stat. */
#define GS_BEGIN_DECLS                                                                             \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wshadow\"") extern "C"       \
    {
#define GS_END_DECLS                                                                               \
    }                                                                                              \
    _Pragma("GCC diagnostic pop")
#define GS_ATOMIC_MEMBER(type_) type_
#else
#define GS_BEGIN_DECLS
#define GS_END_DECLS
#define GS_ATOMIC_MEMBER(type_) _Atomic(type_)
#endif

/* A string literal of what a macro expands to. */
#define GS_TEXT(value_) GS_TEXT_(value_)
#define GS_TEXT_(value_) #value_

#endif
