# Starts trainers, rollouts, relays and sources: in one thread on a clock of their own, or as processes. For the command's
# demo, for measurements and for tests.
file(GLOB sources CONFIGURE_DEPENDS harness/*.c)
add_library(weft_harness STATIC ${sources})
target_compile_definitions(weft_harness PRIVATE _GNU_SOURCE)
target_include_directories(weft_harness PRIVATE include core ${PROJECT_SOURCE_DIR})
