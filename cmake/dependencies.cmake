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

# Headers of OpenSSL 3, whose libraries are opened at run time (core/security/library.c). A build without them refuses
# [security] mode = tls.
set(WEFT_TLS OFF)
find_path(WEFT_openssl_INCLUDE openssl/ssl.h)
mark_as_advanced(WEFT_openssl_INCLUDE)
if(WEFT_openssl_INCLUDE)
    set(CMAKE_REQUIRED_INCLUDES ${WEFT_openssl_INCLUDE})
    include(CheckCSourceCompiles)
    check_c_source_compiles("#include <openssl/ssl.h>
        #if OPENSSL_VERSION_MAJOR != 3
        #error another version
        #endif
        int main(void) { return 0; }" WEFT_OPENSSL_3)
    unset(CMAKE_REQUIRED_INCLUDES)
    set(WEFT_TLS ${WEFT_OPENSSL_3})
endif()
# Headers of libcurl, which is opened at run time (core/store/curl.c). A build without them refuses stores of object
# servers.
find_path(WEFT_curl_INCLUDE curl/curl.h)
mark_as_advanced(WEFT_curl_INCLUDE)
if(NOT WEFT_curl_INCLUDE)
    message(STATUS "Without s3: the headers of libcurl are missing (Debian: libcurl4-openssl-dev)")
endif()
if(NOT WEFT_TLS)
    message(STATUS "Without tls: the headers of OpenSSL 3 are missing (Debian: libssl-dev)")
endif()

if(missing_names)
    list(JOIN missing_names ", " names)
    list(JOIN missing_packages " " packages)
    message(FATAL_ERROR "weft cannot be built without: ${names}\n"
        "  On Debian:  apt-get install ${packages}\n"
        "  Elsewhere put them where CMAKE_PREFIX_PATH finds them; "
        "-DWEFT_FABRIC=OFF does without libfabric, -DBUILD_TESTING=OFF without cmocka.")
endif()

# libfabric is opened at run time (providers/fabric_call.c), so that only its headers are used here. Each call is asked for
# in the version that a linker would take of the library beside those headers, because structs differ between versions.
function(weft_fabric_versions)
    set_target_properties(weft_dep_fabric PROPERTIES INTERFACE_LINK_LIBRARIES "")
    execute_process(COMMAND ${CMAKE_READELF} --dyn-syms --wide ${WEFT_fabric_LIBRARY} OUTPUT_VARIABLE symbols
        COMMAND_ERROR_IS_FATAL ANY)
    foreach(call version getinfo freeinfo dupinfo fabric strerror)
        if(NOT symbols MATCHES " fi_${call}@@(FABRIC_[0-9.]+)")
            message(FATAL_ERROR "${WEFT_fabric_LIBRARY} has no fi_${call} with a version: is it a shared libfabric?")
        endif()
        target_compile_definitions(weft_dep_fabric INTERFACE WEFT_FABRIC_ABI_fi_${call}="${CMAKE_MATCH_1}")
    endforeach()
endfunction()

if(WEFT_FABRIC)
    weft_fabric_versions()
endif()
