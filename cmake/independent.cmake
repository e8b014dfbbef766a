# The decoder in Python that was written from docs/WIRE_FORMAT.md alone, held against the library.
find_program(WEFT_PYTHON python3)
mark_as_advanced(WEFT_PYTHON)
if(NOT WEFT_PYTHON)
    message(STATUS "Skipped the independent decoder: no python3")
    return()
endif()

add_executable(cases_emit tests/independent/emit.c)
foreach(program judge judge_file)
    add_executable(cases_${program} tests/independent/${program}.c)
    target_link_libraries(cases_${program} PRIVATE weft_fuzz_play)
endforeach()
foreach(program cases_emit cases_judge cases_judge_file)
    target_compile_definitions(${program} PRIVATE _GNU_SOURCE)
    target_link_libraries(${program} PRIVATE weft_fuzz_support)
endforeach()

function(weft_independent_test name)
    add_test(NAME independent.${name}
        COMMAND ${WEFT_PYTHON} -B ${PROJECT_SOURCE_DIR}/tests/independent/check.py ${ARGN})
    weft_test_properties(independent.${name} independent)
endfunction()

weft_independent_test(golden golden ${PROJECT_SOURCE_DIR}/tests/golden)
weft_independent_test(cases cases $<TARGET_FILE:cases_emit>)
weft_independent_test(corpus cases $<TARGET_FILE:cases_judge> ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/frame.ar)
weft_independent_test(files cases $<TARGET_FILE:cases_judge_file> ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/file.ar)
