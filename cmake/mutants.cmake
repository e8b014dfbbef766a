# What plants small bugs in core (tests/mutants, .ci/run --full) makes of C text what it promises to.
find_program(WEFT_PYTHON python3)
mark_as_advanced(WEFT_PYTHON)
if(NOT WEFT_PYTHON)
    message(STATUS "Skipped rules.mutants: no python3")
    return()
endif()
add_test(NAME rules.mutants COMMAND ${WEFT_PYTHON} -B ${PROJECT_SOURCE_DIR}/tests/mutants/check.py)
weft_test_properties(rules.mutants rules)
