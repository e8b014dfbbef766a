# Files of other makers' formats, read by their own readers and by this library (long tier).
add_executable(differential_table tests/differential/table.c)
target_compile_definitions(differential_table PRIVATE _GNU_SOURCE)
target_include_directories(differential_table PRIVATE include core ${PROJECT_SOURCE_DIR})
target_link_libraries(differential_table PRIVATE weft_test_rooms)
add_test(NAME differential.safetensors
    COMMAND bash ${PROJECT_SOURCE_DIR}/tests/differential/safetensors.sh $<TARGET_FILE:differential_table>
        ${weft_interpreter})
weft_test_properties(differential.safetensors differential)
