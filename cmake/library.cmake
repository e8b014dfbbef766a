# The rooms as object libraries, and libweft from core, providers and backends.
function(weft_room name)
    file(GLOB sources CONFIGURE_DEPENDS ${ARGN})
    if(NOT WEFT_X86_64)
        list(FILTER sources EXCLUDE REGEX "/backends/host/host_(tight_)?avx[^/]*\\.c$")
    endif()
    add_library(weft_${name} OBJECT ${sources})
    target_compile_definitions(weft_${name} PRIVATE _GNU_SOURCE $<$<NOT:$<BOOL:${WEFT_FABRIC}>>:WEFT_NO_FABRIC>)
    target_include_directories(weft_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/core
        ${PROJECT_SOURCE_DIR})
endfunction()

weft_room(core core/*/*.c)
weft_room(providers providers/*.c)
weft_room(backends backends/*.c backends/*/*.c)
weft_room(model model/*.c)

if(WEFT_TLS)
    target_include_directories(weft_core SYSTEM PRIVATE ${WEFT_openssl_INCLUDE})
else()
    target_compile_definitions(weft_core PRIVATE WEFT_NO_TLS)
endif()
target_link_libraries(weft_core PRIVATE weft_dep_iniparser weft_dep_xxhash weft_dep_zstd)
target_link_libraries(weft_backends PRIVATE weft_dep_xxhash weft_dep_zstd)
target_link_libraries(weft_model PRIVATE weft_dep_jansson)
if(WEFT_FABRIC)
    target_link_libraries(weft_providers PRIVATE weft_dep_fabric)
    # An option that came with some 2.x, among enums, of which the preprocessor knows nothing.
    include(CheckCSourceCompiles)
    set(CMAKE_REQUIRED_INCLUDES ${WEFT_fabric_INCLUDE})
    check_c_source_compiles("#include <rdma/fabric.h>\n#include <rdma/fi_endpoint.h>\n#include <rdma/fi_ext.h>
        int main(void) { return FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV; }" WEFT_FABRIC_UNSOLICITED)
    unset(CMAKE_REQUIRED_INCLUDES)
    if(WEFT_FABRIC_UNSOLICITED)
        target_compile_definitions(weft_providers PRIVATE WEFT_FABRIC_UNSOLICITED)
    endif()
endif()

# These files are compiled for CPUs that the rest of the library does not ask for; they run only where probed.
if(WEFT_X86_64)
    target_compile_definitions(weft_backends PRIVATE WEFT_HAVE_AVX2 WEFT_HAVE_AVX512)
    set(weft_avx2_files host_avx2.c host_tight_avx2.c)
    set(weft_avx512_files host_avx512.c host_tight_avx512.c)
    list(TRANSFORM weft_avx2_files PREPEND ${PROJECT_SOURCE_DIR}/backends/host/)
    list(TRANSFORM weft_avx512_files PREPEND ${PROJECT_SOURCE_DIR}/backends/host/)
    set_source_files_properties(${weft_avx2_files} PROPERTIES COMPILE_OPTIONS "-mavx2;-mbmi;-mbmi2;-mpopcnt")
    set_source_files_properties(${weft_avx512_files} PROPERTIES COMPILE_OPTIONS
        "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx512vbmi;-mavx512vbmi2;-mavx512vpopcntdq;-mgfni;-mbmi;-mbmi2;-mpopcnt;-mlzcnt")
    if(WEFT_SANITIZE STREQUAL "address" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # gcc 12 keeps vectors of 64 bytes in frames for use after return, which it aligns to 32
        set_property(SOURCE ${weft_avx512_files} APPEND PROPERTY COMPILE_OPTIONS --param=asan-use-after-return=0)
    endif()
endif()

# libfabric and OpenSSL are not among them: they are opened at run time.
set(WEFT_LINK_NAMES iniparser xxhash zstd)

set(rooms $<TARGET_OBJECTS:weft_core> $<TARGET_OBJECTS:weft_providers> $<TARGET_OBJECTS:weft_backends>)
add_library(weft SHARED ${rooms})
add_library(weft_static STATIC ${rooms})
foreach(library weft weft_static)
    target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    foreach(name ${WEFT_LINK_NAMES})
        target_link_libraries(${library} PRIVATE $<BUILD_INTERFACE:${WEFT_${name}_LIBRARY}>
            $<INSTALL_INTERFACE:${name}>)
    endforeach()
    target_link_libraries(${library} PRIVATE Threads::Threads m ${CMAKE_DL_LIBS})
endforeach()
# A libfabric outside of the loader's folders is looked for where the build found it.
function(weft_fabric_folder target)
    if(NOT WEFT_FABRIC)
        return()
    endif()
    get_filename_component(folder ${WEFT_fabric_LIBRARY} DIRECTORY)
    if(NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
        set_property(TARGET ${target} APPEND PROPERTY BUILD_RPATH ${folder})
        set_property(TARGET ${target} APPEND PROPERTY INSTALL_RPATH ${folder})
    endif()
endfunction()
weft_fabric_folder(weft)
# A name that is looked up for a session may be so for a while after that was closed, on a thread of the library's code.
target_link_options(weft PRIVATE LINKER:-z,nodelete)
set_target_properties(weft PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
set_target_properties(weft_static PROPERTIES OUTPUT_NAME weft EXPORT_NAME static)
if(NOT WEFT_SANITIZE)
    target_link_options(weft PRIVATE LINKER:-z,defs)
endif()
add_library(weft::weft ALIAS weft)
