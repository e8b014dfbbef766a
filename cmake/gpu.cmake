# The images of the device kernels: what becomes of kernels_cuda/weft.cu and kernels_hip/weft.hip for each device, and how
# they come into libweft. Neither a vendor's header nor its library is needed: clang makes NVIDIA's PTX, or nvcc where no
# clang is found, and ptxas the machine code of it; AMD's images are clang's or those of a site's ROCm. Without any of them
# the library has no image and says so.
set(WEFT_CUDA AUTO CACHE STRING "images for NVIDIA devices: AUTO (where a compiler is found), ON, OFF")
set(WEFT_HIP AUTO CACHE STRING "images for AMD devices: AUTO (where a compiler is found), ON, OFF")
set_property(CACHE WEFT_CUDA WEFT_HIP PROPERTY STRINGS AUTO ON OFF)
include(cmake/gpu_targets.cmake)
set(cuda_default 75 80 90 100)
set(hip_default gfx908 gfx90a gfx942 gfx950 gfx1030 gfx1100 gfx1200)
set(WEFT_CUDA_TARGETS "${cuda_default}" CACHE STRING "sm_* that ptxas makes machine code for, beside the PTX")
set(WEFT_IMAGES "" CACHE PATH "folder of another build's images, taken where they are newer than what they are made of")
set(WEFT_HIP_TARGETS "${hip_default}" CACHE STRING "AMD devices to compile for")

set(cuda HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
find_program(WEFT_NVCC nvcc ${cuda})
find_program(WEFT_PTXAS ptxas ${cuda} DOC "NVIDIA's assembler: drivers of its major version and later run what it makes")
set(clangs clang++-22 clang++-21 clang++-20 clang++-19 clang++)
set(rocm HINTS ENV ROCM_PATH /opt/rocm PATH_SUFFIXES llvm/bin bin)
set(weft_kernel_flags -std=c++17 -O3 -Wall -Wextra -Werror -I${PROJECT_SOURCE_DIR})
# -fuse-cuid=none: else an image holds a hash of the folder in which it is made.
set(weft_hip_flags -x hip --offload-device-only --no-gpu-bundle-output -nogpuinc -nogpulib -mcode-object-version=5
    -fuse-cuid=none ${weft_kernel_flags})
# --cuda-path: not those of a toolkit that may be here, whose PTX would be a newer one.
set(weft_ptx_flags -x cuda --cuda-device-only --cuda-gpu-arch=sm_75 -nocudainc -nocudalib --cuda-path=/
    --cuda-feature=+ptx75 -DWEFT_FREESTANDING ${weft_kernel_flags} -S)
set(weft_nvcc_flags -std=c++17 -O3 -Werror all-warnings -I${PROJECT_SOURCE_DIR})

set(probe ${CMAKE_BINARY_DIR}/CMakeFiles/gpu)
file(WRITE ${probe}/probe.ptx ".version 7.5\n.target sm_75\n.address_size 64\n.visible .entry weft_probe() { ret; }\n")
file(WRITE ${probe}/probe.txt "__attribute__((global)) void weft_probe(int *at) { *at = 1; }\n")

# weft_gpu_compiler(variable names... FLAGS flags...): the first of the names that compiles for the devices.
function(weft_gpu_compiler variable)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "NAMES;FLAGS")
    foreach(name IN LISTS arg_NAMES)
        if(${variable})
            break()
        endif()
        unset(found CACHE)
        find_program(found ${name} ${rocm} NO_CACHE)
        if(found)
            execute_process(COMMAND ${found} ${arg_FLAGS} ${probe}/probe.txt -o ${probe}/probe.out
                RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
            if(NOT failed)
                set(${variable} ${found} CACHE FILEPATH "")
            endif()
        endif()
    endforeach()
    mark_as_advanced(${variable})
endfunction()

# weft_gpu_wanted(option compiler what): whether the images of one kind are built; ON without a compiler is an error.
function(weft_gpu_wanted option compiler what)
    set(${option}_HERE OFF PARENT_SCOPE)
    if(NOT "${${option}}" MATCHES "^(AUTO|ON|OFF)$")
        message(FATAL_ERROR "${option}=${${option}}: allowed are AUTO, ON and OFF")
    elseif(${option} STREQUAL OFF)
        set(said "off")
    elseif(compiler)
        set(${option}_HERE ON PARENT_SCOPE)
        set(said "built")
    elseif(${option} STREQUAL ON)
        message(FATAL_ERROR "${option}=ON, but no compiler for it: ${what}; ${option}=AUTO does without")
    else()
        set(said "none, no compiler for them: ${what}")
    endif()
    set(${option}_SAID ${said} PARENT_SCOPE)
endfunction()

weft_gpu_compiler(WEFT_HIP_COMPILER NAMES ${clangs} amdclang++ hipcc FLAGS ${weft_hip_flags} --offload-arch=gfx90a)
weft_gpu_compiler(WEFT_PTX_COMPILER NAMES ${clangs} FLAGS ${weft_ptx_flags})
set(hip_compiler ${WEFT_HIP_COMPILER})
if(WEFT_HIP_COMPILER AND NOT WEFT_HIP STREQUAL OFF)
    weft_gpu_targets(WEFT_HIP_TARGETS WEFT_HIP "${hip_default}" ${WEFT_HIP_COMPILER} EACH --offload-arch=
        TRY ${weft_hip_flags} -fsyntax-only ${probe}/probe.txt)
    if(NOT WEFT_HIP_TARGETS_KNOWN)
        set(hip_compiler "")
    endif()
endif()
weft_gpu_wanted(WEFT_HIP "${hip_compiler}"
    "Debian's clang-22 and lld-22 (or 19 and later), or ROCm's, found by PATH or ROCM_PATH; WEFT_HIP_COMPILER names one")
set(cuda_compilers ${WEFT_PTX_COMPILER})
if(WEFT_CUDA STREQUAL OFF)
    set(WEFT_CUDA_TARGETS_KNOWN "")
elseif(WEFT_PTX_COMPILER AND WEFT_PTXAS)
    weft_gpu_targets(WEFT_CUDA_TARGETS WEFT_CUDA "${cuda_default}" ${WEFT_PTXAS} EACH -arch=sm_
        TRY ${probe}/probe.ptx -o ${probe}/probe.out)
elseif(WEFT_PTX_COMPILER AND NOT WEFT_CUDA_TARGETS STREQUAL cuda_default AND WEFT_CUDA_TARGETS)
    message(FATAL_ERROR "WEFT_CUDA_TARGETS=${WEFT_CUDA_TARGETS}, but no ptxas is found; WEFT_PTXAS names one")
elseif(WEFT_PTX_COMPILER)
    set(WEFT_CUDA_TARGETS_KNOWN "")
elseif(WEFT_NVCC)
    weft_gpu_targets(WEFT_CUDA_TARGETS WEFT_CUDA "${cuda_default}" ${WEFT_NVCC} LIST --list-gpu-code STEM sm_ EACH -arch=sm_
        TRY -x cu -cubin ${probe}/probe.txt -o ${probe}/probe.out)
    if(WEFT_CUDA_TARGETS_KNOWN)
        set(cuda_compilers ${WEFT_NVCC})
    endif()
endif()
list(FILTER cuda_compilers EXCLUDE REGEX "-NOTFOUND$")
weft_gpu_wanted(WEFT_CUDA "${cuda_compilers}"
    "Debian's clang-22 (or 19 and later), or nvcc, found by PATH, CUDACXX or CUDA_HOME")

file(GLOB kernel_inputs CONFIGURE_DEPENDS backends/kernels/*.h)
list(APPEND kernel_inputs ${CMAKE_CURRENT_LIST_FILE})
set(image_folder ${PROJECT_BINARY_DIR}/images)
file(MAKE_DIRECTORY ${image_folder})
set(image_files "")
set(image_rows "")

# In the library they are compressed.
add_executable(weft_pack cmake/pack.c)
target_link_libraries(weft_pack PRIVATE weft_dep_zstd)

# weft_gpu_image(vendor name file LEAST capability SOURCE source COMMAND command...): one image and its row; what is best
# for a device comes first. LEAST: of PTX, times ten, the capability from which on it can be compiled.
function(weft_gpu_image vendor name file)
    cmake_parse_arguments(PARSE_ARGV 3 arg "" "SOURCE;LEAST" "COMMAND")
    file(GLOB lanes CONFIGURE_DEPENDS kernels_${vendor}/*.h)
    set(inputs ${arg_SOURCE} ${lanes} ${kernel_inputs})
    set(command ${arg_COMMAND} ${arg_SOURCE} -o ${image_folder}/${file})
    if(WEFT_IMAGES)
        set(command bash ${PROJECT_SOURCE_DIR}/cmake/image.sh ${WEFT_IMAGES}/${file} ${image_folder}/${file} ${inputs}
            -- ${command})
    endif()
    add_custom_command(OUTPUT ${image_folder}/${file} COMMAND ${command} DEPENDS ${inputs} COMMENT "Image ${name}"
        VERBATIM)
    if(NOT arg_LEAST)
        set(arg_LEAST 0)
    endif()
    set(packed ${image_folder}/${file}.zst)
    add_custom_command(OUTPUT ${packed} COMMAND weft_pack ${image_folder}/${file} ${packed} DEPENDS ${image_folder}/${file}
        weft_pack COMMENT "" VERBATIM)
    set(image_files ${image_files} ${packed} PARENT_SCOPE)
    set(image_rows "${image_rows} \\\n    ROW(${vendor}, ${name}, ${arg_LEAST}, \"${packed}\")" PARENT_SCOPE)
    set(names_${vendor} ${names_${vendor}} ${name} PARENT_SCOPE)
endfunction()

set(cuda_source ${PROJECT_SOURCE_DIR}/kernels_cuda/weft.cu)
set(names_cuda "")
set(names_hip "")
if(WEFT_CUDA_HERE)
    # Clang's is the better PTX: the same machine code from nvcc's has a sixth more instructions. And every driver since
    # CUDA 11.5 takes it. The sources become PTX once, and that machine code for all.
    if(WEFT_PTX_COMPILER)
        set(ptx ptx75)
        set(oldest 75)
        set(ptx_command ${WEFT_PTX_COMPILER} ${weft_ptx_flags})
        set(assembler ${WEFT_PTXAS} -warn-spills -warn-lmem-usage -Werror)
    else()
        set(ptx ptx)
        list(GET WEFT_CUDA_TARGETS_KNOWN 0 oldest)
        set(ptx_command ${WEFT_NVCC} ${weft_nvcc_flags} -ptx -arch=compute_${oldest})
        set(assembler ${WEFT_NVCC} -Xptxas -warn-spills,-warn-lmem-usage,-Werror -cubin)
    endif()
    foreach(number IN LISTS WEFT_CUDA_TARGETS_KNOWN)
        weft_gpu_image(cuda sm_${number} sm_${number}.cubin SOURCE ${image_folder}/${ptx}.ptx
            COMMAND ${assembler} -arch=sm_${number})
    endforeach()
    weft_gpu_image(cuda ${ptx} ${ptx}.ptx LEAST ${oldest} SOURCE ${cuda_source} COMMAND ${ptx_command})
endif()
if(WEFT_HIP_HERE)
    foreach(name IN LISTS WEFT_HIP_TARGETS_KNOWN)
        set(lanes 32)
        if(name MATCHES "^gfx9")
            set(lanes 64)
        endif()
        weft_gpu_image(hip ${name} ${name}.hsaco SOURCE ${PROJECT_SOURCE_DIR}/kernels_hip/weft.hip
            COMMAND ${WEFT_HIP_COMPILER} ${weft_hip_flags} --offload-arch=${name} -DWEFT_LANES=${lanes})
    endforeach()
endif()

list(JOIN names_cuda " " names_cuda)
list(JOIN names_hip " " names_hip)
message(STATUS "Images for NVIDIA devices: ${WEFT_CUDA_SAID} ${names_cuda}")
if(WEFT_CUDA_HERE AND NOT WEFT_CUDA_TARGETS_KNOWN)
    message(STATUS "  no ptxas: drivers compile them from PTX when they are loaded")
endif()
message(STATUS "Images for AMD devices: ${WEFT_HIP_SAID} ${names_hip}")

add_custom_target(weft_images DEPENDS ${image_files})
file(CONFIGURE OUTPUT ${image_folder}/weft_gpu_images.h CONTENT
"/* Made by cmake/gpu.cmake. */
#define WEFT_GPU_IMAGES_CUDA \"${WEFT_CUDA_SAID}\"
#define WEFT_GPU_IMAGES_HIP \"${WEFT_HIP_SAID}\"
#define WEFT_GPU_IMAGES(ROW)${image_rows}
")
set_source_files_properties(${PROJECT_SOURCE_DIR}/backends/gpu/gpu_images.c PROPERTIES OBJECT_DEPENDS "${image_files}"
    INCLUDE_DIRECTORIES ${image_folder})
add_dependencies(weft_backends weft_images)
