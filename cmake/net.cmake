# The long wire of tests/net/net.sh, for tests and measurements over unequal links.
add_executable(weft_delay tests/net/delay.c)
target_compile_definitions(weft_delay PRIVATE _GNU_SOURCE)

# Who annoys a trainer of mode = tls, for bench/worst_day.
add_executable(weft_flood tests/net/flood.c)
target_compile_definitions(weft_flood PRIVATE _GNU_SOURCE)
target_include_directories(weft_flood PRIVATE include core ${PROJECT_SOURCE_DIR})
target_link_libraries(weft_flood PRIVATE weft_test_rooms)
