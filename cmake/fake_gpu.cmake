# The drivers of the tests, libcuda.so.1 and libamdhip64.so.7, whose launches run the emulation; every
# tests/fake_gpu/test_*.c is one cmocka executable with images of its own. Not for the thread checker, under which each
# lane is a thread: a fleet would take hours.
if(TARGET weft_emulation AND NOT WEFT_SANITIZE STREQUAL "thread")
    set(fake_gpu_folder ${PROJECT_BINARY_DIR}/fake_gpu)
    function(weft_fake_gpu target name version)
        file(GLOB sources CONFIGURE_DEPENDS tests/fake_gpu/fake_*.c)
        add_library(${target} SHARED ${sources})
        target_compile_definitions(${target} PRIVATE _GNU_SOURCE ${ARGN})
        target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
        target_link_libraries(${target} PRIVATE weft_emulation Threads::Threads stdc++)
        set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} VERSION ${version} SOVERSION ${version}
            LIBRARY_OUTPUT_DIRECTORY ${fake_gpu_folder})
    endfunction()
    weft_fake_gpu(weft_fake_cuda cuda 1)
    weft_fake_gpu(weft_fake_hip amdhip64 7 WEFT_FAKE_HIP)

    file(GLOB sources CONFIGURE_DEPENDS tests/fake_gpu/test_*.c)
    foreach(source ${sources})
        weft_cmocka_test(fake_gpu ${source} EXTRA tests/fake_gpu/world.c tests/fake_gpu/far.c tests/fake_gpu/sums.c
            tests/fake_gpu/bench.c tests/fake_gpu/stand_in.c tools/serve/device_weights.c DEFINE
            WEFT_FAKE_CUDA_FILE="$<TARGET_FILE:weft_fake_cuda>" WEFT_FAKE_HIP_FILE="$<TARGET_FILE:weft_fake_hip>"
            WEFT_CALLS_BUDGET="${PROJECT_SOURCE_DIR}/tests/fake_gpu/calls.txt")
        get_filename_component(name ${source} NAME_WE)
        string(REGEX REPLACE "^test_" "" name ${name})
        if(WEFT_ROOMS_SHARED) # a library's own calls go to the program that has the symbol too
            target_compile_definitions(test_fake_gpu_${name} PRIVATE WEFT_IMAGE_AT=weft_gpu_image_at)
            set_target_properties(test_fake_gpu_${name} PROPERTIES ENABLE_EXPORTS ON)
        else()
            target_link_options(test_fake_gpu_${name} PRIVATE LINKER:--wrap=weft_gpu_image_at)
        endif()
        add_dependencies(test_fake_gpu_${name} weft_fake_cuda weft_fake_hip)
    endforeach()
    file(GLOB sources CONFIGURE_DEPENDS tools/bench/gpu/*.c)
    target_sources(test_fake_gpu_bench_hangs PRIVATE ${sources})
    # The host's AVX-512 loops as every CPU can run them, as the unit tests have them (cmake/tests.cmake). The unit tests
    # run them with sanitizers, which take minutes to compile in; here they only give bytes to compare with.
    target_sources(test_fake_gpu_mixed PRIVATE tests/fake_gpu/avx512.c)
    if(WEFT_simde_INCLUDE)
        set_source_files_properties(tests/fake_gpu/avx512.c PROPERTIES COMPILE_DEFINITIONS "WEFT_SIMDE;WEFT_HAVE_AVX512"
            COMPILE_OPTIONS "-Wno-psabi;-fwrapv;$<$<CONFIG:Release>:-O1>;-fno-sanitize=all;-include;${PROJECT_SOURCE_DIR}/tests/support/avx512_simde.h")
    endif()
    set_tests_properties(fake_gpu.fleet fake_gpu.mixed fake_gpu.faults PROPERTIES TIMEOUT 1800) # WEFT_FULL, sanitizers
    set_property(TEST fake_gpu.mixed PROPERTY COST 100)
    if(WEFT_SANITIZE) # a larger model takes half an hour, and makes no other accesses
        set_property(TEST fake_gpu.mixed APPEND PROPERTY ENVIRONMENT_MODIFICATION WEFT_FULL=unset:)
    endif()
endif()
