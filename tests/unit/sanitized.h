/* sanitized.h: whether AddressSanitizer watches, which takes memory and time of its own. */
#ifndef LS_TESTS_SANITIZED_H
#define LS_TESTS_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

#endif
