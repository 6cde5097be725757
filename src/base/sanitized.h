/* Which sanitizers the code is built with. */
#ifndef GS_BASE_SANITIZED_H
#define GS_BASE_SANITIZED_H

#ifndef __has_feature
#define __has_feature(feature_) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define GS_ASAN 1
#else
#define GS_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define GS_TSAN 1
#else
#define GS_TSAN 0
#endif

#endif
