# How the device kernels are compiled, and the hash of all that decides what comes of it: their sources and this file.
# What came of it once lies in kernels_VENDOR/images, with that hash (tools/make-images). As a script (cmake -P) this file
# fails where those images are of other sources than these.
get_filename_component(weft_tree ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
set(weft_kernel_flags -std=c++17 -O3 -Wall -Wextra -Werror -I${weft_tree})
# -fuse-cuid=none: else an image holds a hash of the folder in which it is made.
set(weft_hip_flags -x hip --offload-device-only --no-gpu-bundle-output -nogpuinc -nogpulib -mcode-object-version=5
    -fuse-cuid=none ${weft_kernel_flags})
# --cuda-path: not those of a toolkit that may be here, whose PTX would be a newer one.
set(weft_ptx_flags -x cuda --cuda-device-only --cuda-gpu-arch=sm_75 -nocudainc -nocudalib --cuda-path=/
    --cuda-feature=+ptx75 -DWEFT_FREESTANDING ${weft_kernel_flags} -S)
set(weft_ptxas_flags -warn-spills -warn-lmem-usage -Werror)
set(weft_nvcc_flags -std=c++17 -O3 -Werror all-warnings -I${weft_tree})

# weft_gpu_sources(vendor): sets inputs_VENDOR, the files; sources_VENDOR, their hash; and tree_VENDOR, what made.txt says
# of the images in the tree, empty where they are of other sources.
function(weft_gpu_sources vendor)
    file(GLOB inputs ${weft_tree}/backends/kernels/*.h ${weft_tree}/kernels_${vendor}/*.h
        ${weft_tree}/kernels_${vendor}/weft.*)
    list(APPEND inputs ${CMAKE_CURRENT_FUNCTION_LIST_FILE})
    set(text "")
    foreach(input IN LISTS inputs)
        file(RELATIVE_PATH name ${weft_tree} ${input})
        file(SHA256 ${input} hash)
        string(APPEND text "${hash} ${name}\n")
    endforeach()
    string(SHA256 hash "${text}")
    set(record ${weft_tree}/kernels_${vendor}/images/made.txt)
    set(tree "")
    if(EXISTS ${record})
        file(READ ${record} tree)
        list(APPEND inputs ${record})
    endif()
    if(NOT tree MATCHES "^sources ${hash}\n")
        set(tree "")
    endif()
    set(inputs_${vendor} ${inputs} PARENT_SCOPE)
    set(sources_${vendor} ${hash} PARENT_SCOPE)
    set(tree_${vendor} "${tree}" PARENT_SCOPE)
endfunction()

foreach(vendor cuda hip)
    weft_gpu_sources(${vendor})
    if(CMAKE_SCRIPT_MODE_FILE AND NOT tree_${vendor})
        message(SEND_ERROR "kernels_${vendor}/images is of other sources than these: tools/make-images makes it anew")
    endif()
endforeach()
