# What is declared of the drivers' interfaces by hand, against the vendors' headers, where they are.
add_test(NAME rules.driver_headers COMMAND bash ${PROJECT_SOURCE_DIR}/tests/device/headers.sh)
weft_test_properties(rules.driver_headers rules)

# The program that runs recorded launches on a device (tests/device), and the HIP sources as images for NVIDIA devices,
# 32 and 64 lanes wide, by nvcc and the shim. tools/run-gpu packs both; the drivers of the tests run the program too.
if(WEFT_SANITIZE OR NOT TARGET weft_emulation)
    return()
endif()
file(GLOB cases CONFIGURE_DEPENDS tests/isa/cases*.c)
add_executable(weft_device tests/device/device.c ${cases} tests/isa/record_driver.c)
target_compile_definitions(weft_device PRIVATE _GNU_SOURCE)
target_include_directories(weft_device PRIVATE include core ${PROJECT_SOURCE_DIR})
target_link_libraries(weft_device PRIVATE weft_emulation weft_test_rooms stdc++)
target_link_options(weft_device PRIVATE LINKER:--wrap=weft_gpu_image_at)

set(WEFT_SHIM_TARGET 90 CACHE STRING "sm_* that nvcc compiles the HIP sources for, beside PTX; empty: PTX alone")
if(WEFT_NVCC)
    file(GLOB shim CONFIGURE_DEPENDS tests/device/shim/hip/*.h)
    set(code compute_75)
    if(WEFT_SHIM_TARGET)
        set(code "[compute_75,sm_${WEFT_SHIM_TARGET}]")
    endif()
    foreach(width 32 64)
        set(file ${image_folder}/shim${width}.fatbin)
        add_custom_command(OUTPUT ${file} COMMAND ${WEFT_NVCC} ${weft_nvcc_flags} -x cu
            -DWEFT_HIP_HEADERS -DWEFT_LANES=${width} -I${PROJECT_SOURCE_DIR}/tests/device/shim -fatbin
            "-gencode=arch=compute_75,code=${code}" ${PROJECT_SOURCE_DIR}/kernels_hip/weft.hip -o ${file}
            DEPENDS ${inputs_hip} ${shim}
            COMMENT "HIP sources for NVIDIA devices, ${width} lanes" VERBATIM)
        list(APPEND shim_files ${file})
    endforeach()
    add_custom_target(weft_shim_images DEPENDS ${shim_files})
endif()

add_test(NAME device.run_gpu COMMAND bash ${PROJECT_SOURCE_DIR}/tests/device/run_gpu.sh)
weft_test_properties(device.run_gpu device)
set_tests_properties(device.run_gpu PROPERTIES TIMEOUT 6000) # WEFT_FULL, on a busy machine
add_test(NAME device.run_gpu_steps COMMAND bash ${PROJECT_SOURCE_DIR}/tests/device/run_gpu_steps.sh)
weft_test_properties(device.run_gpu_steps device)
