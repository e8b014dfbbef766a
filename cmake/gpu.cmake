# The images of the device kernels: what becomes of kernels_cuda/weft.cu and kernels_hip/weft.hip for each device, and how
# they come into libweft. Those in the tree are taken where they are of the sources in the tree, because what was tested
# is to run. Else they are compiled, and neither a vendor's header nor its library is needed: clang makes NVIDIA's PTX, or
# nvcc where no clang is found, and ptxas the machine code of it; AMD's images are clang's or those of a site's ROCm.
# Without any of them the library has no image and says so.
set(said "AUTO (those in the tree, else compiled where a compiler is found), ON (compiled), OFF")
set(WEFT_CUDA AUTO CACHE STRING "images for NVIDIA devices: ${said}")
set(WEFT_HIP AUTO CACHE STRING "images for AMD devices: ${said}")
set_property(CACHE WEFT_CUDA WEFT_HIP PROPERTY STRINGS AUTO ON OFF)
include(cmake/gpu_sources.cmake)
include(cmake/gpu_targets.cmake)
set(cuda_default 75 80 90 100)
set(hip_default gfx908 gfx90a gfx942 gfx950 gfx1030 gfx1100 gfx1200)
set(WEFT_CUDA_TARGETS "${cuda_default}" CACHE STRING "sm_* that there is machine code for, beside the PTX")
set(WEFT_HIP_TARGETS "${hip_default}" CACHE STRING "AMD devices to compile for")

set(cuda HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
find_program(WEFT_NVCC nvcc ${cuda})
find_program(WEFT_PTXAS ptxas ${cuda} DOC "NVIDIA's assembler: drivers of its major version and later run what it makes")
set(clangs clang++-22 clang++-21 clang++-20 clang++-19 clang++)
set(rocm HINTS ENV ROCM_PATH /opt/rocm PATH_SUFFIXES llvm/bin bin)

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

# weft_gpu_taken(option vendor files...): whether the images in the tree are taken: by AUTO, where they are of these
# sources and the tree has all of these files.
function(weft_gpu_taken option vendor)
    set(taken OFF)
    if(${option} STREQUAL AUTO AND tree_${vendor})
        set(taken ON)
    elseif(${option} STREQUAL AUTO)
        message(STATUS
            "kernels_${vendor}/images is of other sources than these and not taken: tools/make-images makes it anew")
    endif()
    foreach(file IN LISTS ARGN)
        if(NOT EXISTS ${PROJECT_SOURCE_DIR}/kernels_${vendor}/images/${file}.zst)
            set(taken OFF)
        endif()
    endforeach()
    set(${option}_TAKEN ${taken} PARENT_SCOPE)
endfunction()

# weft_gpu_wanted(option compiler what): whether the library has images of one kind; ON without a compiler is an error.
function(weft_gpu_wanted option compiler what)
    set(${option}_HERE OFF PARENT_SCOPE)
    if(NOT "${${option}}" MATCHES "^(AUTO|ON|OFF)$")
        message(FATAL_ERROR "${option}=${${option}}: allowed are AUTO, ON and OFF")
    elseif(${option} STREQUAL OFF)
        set(said "off")
    elseif(${option}_TAKEN)
        set(${option}_HERE ON PARENT_SCOPE)
        set(said "from the tree")
    elseif(compiler)
        set(${option}_HERE ON PARENT_SCOPE)
        set(said "compiled")
    elseif(${option} STREQUAL ON)
        message(FATAL_ERROR "${option}=ON, but no compiler for it: ${what}; ${option}=AUTO does without")
    else()
        set(said "none, no compiler for them: ${what}")
    endif()
    set(${option}_SAID ${said} PARENT_SCOPE)
endfunction()

list(TRANSFORM WEFT_HIP_TARGETS APPEND .hsaco OUTPUT_VARIABLE files)
weft_gpu_taken(WEFT_HIP hip ${files})
set(hip_compiler "")
if(WEFT_HIP_TAKEN)
    set(WEFT_HIP_TARGETS_KNOWN ${WEFT_HIP_TARGETS})
elseif(NOT WEFT_HIP STREQUAL OFF)
    weft_gpu_compiler(WEFT_HIP_COMPILER NAMES ${clangs} amdclang++ hipcc FLAGS ${weft_hip_flags} --offload-arch=gfx90a)
endif()
if(WEFT_HIP_COMPILER AND NOT WEFT_HIP_TAKEN AND NOT WEFT_HIP STREQUAL OFF)
    weft_gpu_targets(WEFT_HIP_TARGETS WEFT_HIP "${hip_default}" ${WEFT_HIP_COMPILER} EACH --offload-arch=
        TRY ${weft_hip_flags} -fsyntax-only ${probe}/probe.txt)
    if(WEFT_HIP_TARGETS_KNOWN)
        set(hip_compiler ${WEFT_HIP_COMPILER})
    endif()
endif()
weft_gpu_wanted(WEFT_HIP "${hip_compiler}"
    "Debian's clang-22 and lld-22 (or 19 and later), or ROCm's, found by PATH or ROCM_PATH; WEFT_HIP_COMPILER names one")

list(TRANSFORM WEFT_CUDA_TARGETS REPLACE "(.+)" "sm_\\1.cubin" OUTPUT_VARIABLE files)
weft_gpu_taken(WEFT_CUDA cuda ptx75.ptx ${files})
set(cuda_compilers "")
if(NOT WEFT_CUDA_TAKEN AND NOT WEFT_CUDA STREQUAL OFF)
    weft_gpu_compiler(WEFT_PTX_COMPILER NAMES ${clangs} FLAGS ${weft_ptx_flags})
    set(cuda_compilers ${WEFT_PTX_COMPILER})
endif()
if(WEFT_CUDA_TAKEN)
    set(WEFT_CUDA_TARGETS_KNOWN ${WEFT_CUDA_TARGETS})
elseif(WEFT_CUDA STREQUAL OFF)
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

# weft_gpu_made(vendor taken compiler assembler): writes made_VENDOR.txt beside the images, of which sources and by which
# compilers they are: what changes there makes them anew.
function(weft_gpu_made vendor taken compiler assembler)
    set(made "taken\n${tree_${vendor}}")
    if(NOT taken)
        set(made "sources ${sources_${vendor}}\n")
        foreach(program compiler assembler)
            if(${program})
                execute_process(COMMAND ${${program}} --version OUTPUT_VARIABLE said ERROR_QUIET)
                string(REGEX MATCH "[^\n]*(clang version|release)[^\n]*" said "${said}")
                string(APPEND made "${program} ${said}\n")
            endif()
        endforeach()
    endif()
    file(CONFIGURE OUTPUT ${image_folder}/made_${vendor}.txt CONTENT "${made}" @ONLY)
    set(made_${vendor} "${made}" PARENT_SCOPE)
endfunction()

if(NOT "${WEFT_CUDA} ${WEFT_HIP}" STREQUAL "OFF OFF")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${inputs_cuda} ${inputs_hip})
endif()
set(image_folder ${PROJECT_BINARY_DIR}/images)
file(MAKE_DIRECTORY ${image_folder})
set(image_files "") # all
set(library_files "")
set(image_rows "")

# In the library they are compressed.
add_executable(weft_pack cmake/pack.c)
target_link_libraries(weft_pack PRIVATE weft_dep_zstd)

# weft_gpu_image(vendor name file LEAST capability DRIVER version SOURCE source COMMAND command...): one image and its
# row; what is best for a device comes first. LEAST: of PTX, times ten, the capability from which on it can be compiled.
# DRIVER: the oldest driver that takes it, as the driver counts its versions. The command is for images that are not from
# the tree.
function(weft_gpu_image vendor name file)
    cmake_parse_arguments(PARSE_ARGV 3 arg "" "SOURCE;LEAST;DRIVER" "COMMAND")
    set(made ${image_folder}/${file})
    set(packed ${made}.zst)
    set(record ${image_folder}/made_${vendor}.txt)
    string(TOUPPER WEFT_${vendor}_TAKEN taken)
    if(${taken})
        set(packed ${PROJECT_SOURCE_DIR}/kernels_${vendor}/images/${file}.zst)
        add_custom_command(OUTPUT ${made} COMMAND weft_pack ${packed} ${made} DEPENDS ${packed} ${record} weft_pack
            COMMENT "" VERBATIM)
    else()
        add_custom_command(OUTPUT ${made} COMMAND ${arg_COMMAND} ${arg_SOURCE} -o ${made} DEPENDS ${arg_SOURCE} ${record}
            COMMENT "Image ${name}" VERBATIM)
        add_custom_command(OUTPUT ${packed} COMMAND weft_pack ${made} ${packed} DEPENDS ${made} weft_pack
            COMMENT "" VERBATIM)
    endif()
    set(image_files ${image_files} ${made} ${packed} PARENT_SCOPE)
    set(library_files ${library_files} ${packed} PARENT_SCOPE)
    set(row "ROW(${vendor}, ${name}, ${arg_LEAST}, ${arg_DRIVER}, \"${packed}\")")
    set(image_rows "${image_rows} \\\n    ${row}" PARENT_SCOPE)
    set(names_${vendor} ${names_${vendor}} ${name} PARENT_SCOPE)
endfunction()

set(names_cuda "")
set(names_hip "")
if(WEFT_CUDA_HERE)
    # Clang's is the better PTX: the same machine code from nvcc's has a sixth more instructions. And every driver since
    # CUDA 11.5 takes it. The sources become PTX once, and that machine code for all.
    if(WEFT_CUDA_TAKEN OR WEFT_PTX_COMPILER)
        set(ptx ptx75)
        set(oldest 75)
        set(ptx_command ${WEFT_PTX_COMPILER} ${weft_ptx_flags})
        set(assembler ${WEFT_PTXAS} ${weft_ptxas_flags})
        weft_gpu_made(cuda ${WEFT_CUDA_TAKEN} "${WEFT_PTX_COMPILER}" "${WEFT_PTXAS}")
    else()
        set(ptx ptx)
        list(GET WEFT_CUDA_TARGETS_KNOWN 0 oldest)
        set(ptx_command ${WEFT_NVCC} ${weft_nvcc_flags} -ptx -arch=compute_${oldest})
        list(JOIN weft_ptxas_flags "," assembler)
        set(assembler ${WEFT_NVCC} -Xptxas ${assembler} -cubin)
        weft_gpu_made(cuda OFF "${WEFT_NVCC}" "${WEFT_NVCC}")
    endif()
    # Machine code runs by drivers of the major version of its assembler, and nvcc's PTX is for those of nvcc's version.
    set(driver 0)
    set(ptx_driver 11050)
    if(made_cuda MATCHES "assembler [^\n]*release ([0-9]+)\\.([0-9]+)")
        set(driver ${CMAKE_MATCH_1}000)
        if("${ptx}" STREQUAL "ptx")
            math(EXPR ptx_driver "${CMAKE_MATCH_1}000 + ${CMAKE_MATCH_2}0")
        endif()
    endif()
    foreach(number IN LISTS WEFT_CUDA_TARGETS_KNOWN)
        weft_gpu_image(cuda sm_${number} sm_${number}.cubin LEAST 0 DRIVER ${driver} SOURCE ${image_folder}/${ptx}.ptx
            COMMAND ${assembler} -arch=sm_${number})
    endforeach()
    weft_gpu_image(cuda ${ptx} ${ptx}.ptx LEAST ${oldest} DRIVER ${ptx_driver}
        SOURCE ${PROJECT_SOURCE_DIR}/kernels_cuda/weft.cu COMMAND ${ptx_command})
endif()
if(WEFT_HIP_HERE)
    weft_gpu_made(hip ${WEFT_HIP_TAKEN} "${WEFT_HIP_COMPILER}" "")
    foreach(name IN LISTS WEFT_HIP_TARGETS_KNOWN)
        set(lanes 32)
        if(name MATCHES "^gfx9")
            set(lanes 64)
        endif()
        weft_gpu_image(hip ${name} ${name}.hsaco LEAST 0 DRIVER 0 SOURCE ${PROJECT_SOURCE_DIR}/kernels_hip/weft.hip
            COMMAND ${WEFT_HIP_COMPILER} ${weft_hip_flags} --offload-arch=${name} -DWEFT_LANES=${lanes})
    endforeach()
endif()

list(JOIN names_cuda " " names_cuda)
list(JOIN names_hip " " names_hip)
message(STATUS "Images for NVIDIA devices: ${WEFT_CUDA_SAID} ${names_cuda}")
if(WEFT_CUDA_HERE AND NOT WEFT_CUDA_TARGETS_KNOWN AND NOT WEFT_CUDA_TAKEN)
    message(STATUS "  no ptxas: drivers compile them from PTX when they are loaded")
endif()
message(STATUS "Images for AMD devices: ${WEFT_HIP_SAID} ${names_hip}")

add_custom_target(weft_images DEPENDS ${image_files})
add_custom_target(weft_library_images DEPENDS ${library_files}) # those in the tree come into the library as they are
file(CONFIGURE OUTPUT ${image_folder}/weft_gpu_images.h CONTENT
"/* Made by cmake/gpu.cmake. */
#define WEFT_GPU_IMAGES_CUDA \"${WEFT_CUDA_SAID}\"
#define WEFT_GPU_IMAGES_HIP \"${WEFT_HIP_SAID}\"
#define WEFT_GPU_IMAGES(ROW)${image_rows}
")
set_source_files_properties(${PROJECT_SOURCE_DIR}/backends/gpu/gpu_images.c PROPERTIES OBJECT_DEPENDS "${library_files}"
    INCLUDE_DIRECTORIES ${image_folder})
add_dependencies(weft_backends weft_library_images)
add_dependencies(weft_images weft_library_images) # two targets that make one file at once would spoil it
