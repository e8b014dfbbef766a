# The Python package in python/: its wheel, which scikit-build-core has this build make by pyproject.toml, and its tests.
if(SKBUILD)
    # One file of one name, because a wheel holds no symbolic links.
    set_property(TARGET weft PROPERTY VERSION)
    set_property(TARGET weft PROPERTY SOVERSION)
    set_target_properties(weft PROPERTIES NO_SONAME ON INSTALL_RPATH "" INSTALL_RPATH_USE_LINK_PATH OFF)
    install(TARGETS weft LIBRARY DESTINATION weft_fabric COMPONENT python)
    install(PROGRAMS $<TARGET_FILE:weft_command> DESTINATION weft_fabric RENAME weft-fabric COMPONENT python)
    install(DIRECTORY conf DESTINATION weft_fabric COMPONENT python)
endif()
add_custom_target(weft_python DEPENDS weft weft_command) # for ninja the target weft is the command's file

# The environment of tools/run-tests, which has torch; the interpreter that the packages of tools/setup.sh are for; else
# whichever has them.
function(weft_find_cffi variable)
    foreach(python ${PROJECT_SOURCE_DIR}/build-python/bin/python /usr/bin/python3 python3)
        execute_process(COMMAND ${python} -c "import cffi, numpy" RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
        if(result EQUAL 0)
            set(${variable} ${python} PARENT_SCOPE)
            return()
        endif()
    endforeach()
    set(${variable} python3 PARENT_SCOPE)
endfunction()
weft_find_cffi(weft_interpreter)

if(NOT BUILD_TESTING)
    return()
endif()
if(WEFT_SANITIZE)
    message(STATUS "Skipped the tests of the Python package: an interpreter loads no sanitized library")
    return()
endif()

file(GLOB scripts CONFIGURE_DEPENDS python/tests/test_*.py)
foreach(script ${scripts})
    get_filename_component(name ${script} NAME_WE)
    string(REGEX REPLACE "^test_" "" name ${name})
    add_test(NAME python.${name} COMMAND ${weft_interpreter} -B -X dev ${script})
    weft_test_properties(python.${name} python)
    set_property(TEST python.${name} APPEND PROPERTY ENVIRONMENT PYTHONPATH=${PROJECT_SOURCE_DIR}/python/src
        WEFT_LIBRARY=$<TARGET_FILE:weft> WEFT_COMMAND=$<TARGET_FILE:weft_command>)
endforeach()
set_tests_properties(python.cycles python.wheel PROPERTIES TIMEOUT 1500)
