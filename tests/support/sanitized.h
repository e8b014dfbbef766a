/* sanitized.h - true if a sanitizer takes address space and memory too, so that no test can judge them. */
#ifndef WEFT_TESTS_SANITIZED_H
#define WEFT_TESTS_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#endif
