# What compilers made of the kernels, read and run on the host (tests/isa): every image is inspected. The machine code of
# gfx90a and gfx942 runs on launches that the emulation recorded; that of gfx950 in the long tier. PTX becomes C++ over the
# emulation's lanes and passes the same cases.
if(WEFT_SANITIZE)
    return() # what runs is Python and code of other machines
endif()
# The images in the tree are what the compilers make of the kernels, a minute's work: in a build of their own.
add_test(NAME isa.tree COMMAND bash ${PROJECT_SOURCE_DIR}/tools/make-images --check ${PROJECT_BINARY_DIR}/made)
weft_test_properties(isa.tree isa)
set_tests_properties(isa.tree PROPERTIES TIMEOUT 1500 COST 100)
if(NOT WEFT_PYTHON OR NOT TARGET weft_emulation OR NOT (WEFT_HIP_HERE OR WEFT_CUDA_HERE))
    message(STATUS "Skipped what images hold: it needs images, python3 and a C++ compiler")
    return()
endif()

add_custom_target(isa_images ALL DEPENDS weft_images)
file(GLOB cases CONFIGURE_DEPENDS tests/isa/cases*.c)
add_library(isa_record STATIC ${cases} tests/isa/record.c tests/isa/record_driver.c)
target_compile_definitions(isa_record PRIVATE _GNU_SOURCE)
target_include_directories(isa_record PUBLIC include core ${PROJECT_SOURCE_DIR})
target_link_libraries(isa_record PUBLIC weft_test_rooms)

set(streaming digest diff) # kernels that read weights
set(copying fast_frame) # kernels that write to the host's memory in bulk
set(kernel_list ${PROJECT_SOURCE_DIR}/backends/kernels/list.h)
function(weft_isa_test name)
    add_test(NAME isa.${name} COMMAND ${ARGN})
    weft_test_properties(isa.${name} isa)
endfunction()

weft_isa_test(images ${WEFT_PYTHON} -B ${PROJECT_SOURCE_DIR}/tests/isa/check_images.py ${image_folder} ${kernel_list}
    --streaming ${streaming} --copying ${copying})

if(WEFT_CUDA_HERE)
    set(folder ${image_folder}/${ptx})
    file(READ ${kernel_list} text)
    string(REGEX MATCHALL "    ROW\\([a-z_]+\\)" made "${text}")
    list(TRANSFORM made REPLACE "    ROW\\(([a-z_]+)\\)" "${folder}/\\1.cpp")
    file(GLOB tool CONFIGURE_DEPENDS tests/isa/ptx_*.py)
    add_custom_command(OUTPUT ${made} ${folder}/table.cpp DEPENDS ${image_folder}/${ptx}.ptx ${kernel_list} ${tool}
        COMMAND ${WEFT_PYTHON} -B ${PROJECT_SOURCE_DIR}/tests/isa/ptx_compile.py ${image_folder}/${ptx}.ptx ${kernel_list}
            ${folder}
        COMMENT "Image ${ptx} as C++" VERBATIM)
    add_executable(isa_ptx ${made} ${folder}/table.cpp tests/isa/ptx_machine.cpp tests/isa/ptx_main.c)
    # -O1: to compile this code takes longer than to run it.
    target_compile_options(isa_ptx PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
    set_target_properties(isa_ptx PROPERTIES CXX_STANDARD 17 CXX_EXTENSIONS OFF
        ENABLE_EXPORTS ON) # for the library of ptx_mutate.py
    target_link_libraries(isa_ptx PRIVATE isa_record weft_emulation stdc++ ${CMAKE_DL_LIBS})
    weft_isa_test(ptx bash ${PROJECT_SOURCE_DIR}/tests/isa/run_ptx.sh ${WEFT_PYTHON} $<TARGET_FILE:isa_ptx> ${ptx})
else()
    message(STATUS "Skipped the PTX of NVIDIA devices: it needs their images")
endif()

if(NOT WEFT_HIP_HERE)
    message(STATUS "Skipped the machine code of AMD devices: it needs their images")
    return()
endif()
add_executable(isa_cases tests/isa/record_main.c)
target_link_libraries(isa_cases PRIVATE isa_record weft_emulation stdc++)
foreach(device gfx90a gfx942 gfx950)
    if(device IN_LIST WEFT_HIP_TARGETS_KNOWN)
        set(when "")
        if(device STREQUAL "gfx950") # little of it differs from gfx942
            set(when --long)
        endif()
        weft_isa_test(${device} bash ${PROJECT_SOURCE_DIR}/tests/isa/run.sh ${when} ${WEFT_PYTHON}
            $<TARGET_FILE:isa_cases> ${image_folder}/${device}.hsaco)
    endif()
endforeach()
