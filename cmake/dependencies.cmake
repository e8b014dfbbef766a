# Finds every library first, then says in one message what is missing. Each becomes an interface target weft_dep_NAME:
# a full path in the build, a plain library name for those who link the installed static library.
set(missing_names "")
set(missing_packages "")

macro(weft_missing name package)
    list(APPEND missing_names "${name}")
    list(APPEND missing_packages "${package}")
endmacro()

# weft_find(name library header package [suffixes...]): suffixes are folders under include/ where the header may lie.
macro(weft_find name library header package)
    find_path(WEFT_${name}_INCLUDE ${header} PATH_SUFFIXES ${ARGN})
    find_library(WEFT_${name}_LIBRARY ${library})
    mark_as_advanced(WEFT_${name}_INCLUDE WEFT_${name}_LIBRARY)
    if(WEFT_${name}_INCLUDE AND WEFT_${name}_LIBRARY)
        add_library(weft_dep_${name} INTERFACE)
        target_include_directories(weft_dep_${name} SYSTEM INTERFACE ${WEFT_${name}_INCLUDE})
        target_link_libraries(weft_dep_${name} INTERFACE ${WEFT_${name}_LIBRARY})
    else()
        weft_missing(${name} ${package})
    endif()
endmacro()

set(CMAKE_THREAD_PREFER_PTHREAD ON)
set(THREADS_PREFER_PTHREAD_FLAG OFF)
find_package(Threads REQUIRED)

weft_find(iniparser iniparser iniparser.h libiniparser-dev iniparser)
weft_find(xxhash xxhash xxhash.h libxxhash-dev)
weft_find(zstd zstd zstd.h libzstd-dev)
weft_find(jansson jansson jansson.h libjansson-dev)
if(WEFT_FABRIC)
    weft_find(fabric fabric rdma/fabric.h libfabric-dev)
endif()
if(BUILD_TESTING)
    weft_find(cmocka cmocka cmocka.h libcmocka-dev)
    find_path(WEFT_simde_INCLUDE simde/x86/avx512.h) # optional: one test needs it
    mark_as_advanced(WEFT_simde_INCLUDE)
endif()

if(missing_names)
    list(JOIN missing_names ", " names)
    list(JOIN missing_packages " " packages)
    message(FATAL_ERROR "weft cannot be built without: ${names}\n"
        "  On Debian:  apt-get install ${packages}\n"
        "  Elsewhere put them where CMAKE_PREFIX_PATH finds them; "
        "-DWEFT_FABRIC=OFF does without libfabric, -DBUILD_TESTING=OFF without cmocka.")
endif()
