# The long wire of tests/net/net.sh, for tests and measurements over unequal links.
add_executable(weft_delay tests/net/delay.c)
target_compile_definitions(weft_delay PRIVATE _GNU_SOURCE)
