# The machine code of AMD devices, read and run on the host (tests/isa): every image is inspected, and those of gfx90a and
# gfx942 run on launches that the emulation recorded; that of gfx950 in the long tier.
if(WEFT_SANITIZE)
    return() # what runs is Python and code of other machines
endif()
if(NOT WEFT_PYTHON OR NOT TARGET weft_emulation OR NOT WEFT_HIP_HERE)
    message(STATUS "Skipped the machine code of AMD devices: it needs their images, python3 and a C++ compiler")
    return()
endif()

file(GLOB cases CONFIGURE_DEPENDS tests/isa/cases*.c)
add_executable(isa_cases ${cases} tests/isa/record.c tests/isa/record_driver.c tests/isa/record_main.c)
target_compile_definitions(isa_cases PRIVATE _GNU_SOURCE)
target_include_directories(isa_cases PRIVATE include core ${PROJECT_SOURCE_DIR})
target_link_libraries(isa_cases PRIVATE weft_emulation weft_test_rooms stdc++)

set(streaming digest diff) # kernels that read weights
function(weft_isa_test name)
    add_test(NAME isa.${name} COMMAND ${ARGN})
    weft_test_properties(isa.${name} isa)
endfunction()

weft_isa_test(images ${WEFT_PYTHON} -B ${PROJECT_SOURCE_DIR}/tests/isa/check_images.py ${image_folder}
    ${PROJECT_SOURCE_DIR}/backends/kernels/list.h --streaming ${streaming})
foreach(device gfx90a gfx942 gfx950)
    if(device IN_LIST WEFT_HIP_TARGETS_KNOWN)
        set(when "")
        if(device STREQUAL "gfx950") # little of it differs from gfx942
            set(when bash -c [[test -z "$WEFT_FULL" || exec "$@"]] full)
        endif()
        weft_isa_test(${device} ${when} bash ${PROJECT_SOURCE_DIR}/tests/isa/run.sh ${WEFT_PYTHON}
            $<TARGET_FILE:isa_cases> ${image_folder}/${device}.hsaco)
    endif()
endforeach()
