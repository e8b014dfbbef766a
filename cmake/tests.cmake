# Every tests/KIND/test_*.c is one cmocka executable, every script one test; the kind is the label.
#
# intercept_tls_get_addr=0: the runtime of clang 14 takes a thread's dynamic variables for glibc's own block when they
# happen to lie 16 bytes behind a page's start, reads a size that is none before them and dies in the search for leaks.
string(
    JOIN
    ":"
    asan_options
    detect_stack_use_after_return=1
    strict_string_checks=1
    check_initialization_order=1
    intercept_tls_get_addr=0)
set(test_environment
    WEFT_BIN=$<TARGET_FILE:weft_command>
    WEFT_SOURCE=${PROJECT_SOURCE_DIR}
    WEFT_BUILD=${PROJECT_BINARY_DIR}
    WEFT_SANITIZE=${WEFT_SANITIZE}
    WEFT_FABRIC=$<BOOL:${WEFT_FABRIC}>
    WEFT_TLS=$<$<BOOL:${WEFT_TLS}>:1>
    "WEFT_CC=${CMAKE_C_COMPILER}"
    "WEFT_CFLAGS=$<JOIN:${WEFT_SANITIZE_FLAGS}, >"
    WEFT_CMAKE=${CMAKE_COMMAND}
    TMPDIR=${PROJECT_BINARY_DIR}/tmp
    ASAN_OPTIONS=${asan_options}
    "UBSAN_OPTIONS=print_stacktrace=1"
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0"
    "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp:halt_on_error=1:die_after_fork=0")
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/tmp)

# The label threads is for what the thread checker is to see: tests with threads in one process. The target of this name
# builds them alone.
add_custom_target(threads)

file(STRINGS tests/seconds.txt weft_test_seconds REGEX "^[^#]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS tests/seconds.txt)

# weft_test_limit(variable test target): the seconds that a test of one process may take; what has a long form, and what
# takes half a minute, may take the most.
function(weft_test_limit variable test target)
    set(seconds 3)
    set(known ${weft_test_seconds})
    list(FILTER known INCLUDE REGEX "^${test} ")
    if(known)
        string(REGEX REPLACE ".* " "" seconds "${known}")
    endif()
    get_target_property(sources ${target} SOURCES)
    list(GET sources 0 source)
    file(STRINGS ${source} long REGEX "WEFT_FULL")
    if(long)
        set(seconds 30)
    endif()
    if(WEFT_SANITIZE STREQUAL "address")
        math(EXPR seconds "${seconds} * 4")
    elseif(WEFT_SANITIZE STREQUAL "thread")
        math(EXPR seconds "${seconds} * 2") # and five times below
    endif()
    math(EXPR limit "${seconds} * 10")
    if(limit GREATER 300)
        set(limit 300)
    endif()
    set(${variable} ${limit} PARENT_SCOPE)
endfunction()

# weft_test_properties(test label [target])
function(weft_test_properties test label)
    set(labels ${label})
    if(test MATCHES "loop|session|peer|trainer|rollout")
        list(APPEND labels loop)
    endif()
    if(ARGC GREATER 2 AND test MATCHES "^(fault|unit|property)\\.(session|loop|peer|encode$|team|clock|log|status)")
        list(APPEND labels threads)
        add_dependencies(threads ${ARGV2})
    endif()
    set(timeout 300) # far beyond what any takes on a busy machine: most of it is waiting
    if(label STREQUAL "integration")
        set(timeout 900)
    elseif(ARGC GREATER 2 AND label MATCHES "^(unit|property|fault|golden)$")
        weft_test_limit(timeout ${test} ${ARGV2})
    endif()
    if(WEFT_SANITIZE STREQUAL "thread") # up to fifty times slower
        math(EXPR timeout "${timeout} * 5")
    endif()
    # The longest begin first, so that none of them ends alone.
    set(cost 1)
    if(label STREQUAL "integration" OR test MATCHES "session_(bridge|overtaken|eager|levels|journal)|update_hostile")
        set(cost 100)
    endif()
    set_tests_properties(${test} PROPERTIES COST ${cost} LABELS "${labels}" TIMEOUT ${timeout} SKIP_RETURN_CODE 77
        ENVIRONMENT "${test_environment}")
endfunction()

set(rooms_kind STATIC)
if(WEFT_ROOMS_SHARED)
    set(rooms_kind SHARED)
endif()
add_library(weft_test_rooms ${rooms_kind} $<TARGET_OBJECTS:weft_core> $<TARGET_OBJECTS:weft_providers>
    $<TARGET_OBJECTS:weft_backends> $<TARGET_OBJECTS:weft_model>)
target_link_libraries(weft_test_rooms PUBLIC weft_dep_iniparser weft_dep_xxhash weft_dep_zstd weft_dep_jansson
    Threads::Threads ${CMAKE_DL_LIBS} m)
# Stand-ins for providers without a device here take these calls on the way to libfabric (tests/support/standin.h).
file(GLOB standin CONFIGURE_DEPENDS tests/support/standin*.c)
target_sources(weft_test_rooms PRIVATE ${standin})
target_compile_definitions(weft_test_rooms PRIVATE _GNU_SOURCE $<$<NOT:$<BOOL:${WEFT_FABRIC}>>:WEFT_NO_FABRIC>)
target_include_directories(weft_test_rooms PRIVATE ${PROJECT_SOURCE_DIR})
if(WEFT_FABRIC)
    target_link_libraries(weft_test_rooms PRIVATE weft_dep_fabric)
    target_link_options(weft_test_rooms PUBLIC LINKER:--wrap=weft_fabric_call_getinfo
        LINKER:--wrap=weft_fabric_call_fabric LINKER:--wrap=weft_fabric_version LINKER:--wrap=getrandom
        LINKER:--wrap=getrlimit)
endif()
if(WEFT_ROOMS_SHARED)
    target_compile_definitions(weft_test_rooms PRIVATE WEFT_ROOMS_SHARED)
    foreach(call opendir fstat fstatfs fsync inotify_add_watch mkdir renameat2 statx unlink weft_curl_open
            write)
        target_link_options(weft_test_rooms PRIVATE LINKER:--wrap=${call})
    endforeach()
endif()

# What tests share beyond headers.
# The harness is in the same archive, because each calls the other.
file(GLOB sources CONFIGURE_DEPENDS tests/support/*.c harness/*.c)
list(REMOVE_ITEM sources ${standin})
add_library(weft_test_support STATIC ${sources})
target_compile_definitions(weft_test_support PRIVATE _GNU_SOURCE $<$<NOT:$<BOOL:${WEFT_FABRIC}>>:WEFT_NO_FABRIC>)
target_include_directories(weft_test_support PRIVATE include core ${PROJECT_SOURCE_DIR})
target_link_libraries(weft_test_support PUBLIC weft_test_rooms weft_dep_cmocka)

# What has one thread, and takes minutes under the thread checker, which would see nothing in it.
set(weft_one_thread "^(unit\\.host_(sets|simde|tight|tight_simde)|property\\.(receipts|rails|run_lists))$")

# weft_cmocka_test(kind source [EXTRA sources] [DEFINE definitions] [OPTIONS flags]): EXTRA are sources beside rooms.
function(weft_cmocka_test kind source)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "EXTRA;DEFINE;OPTIONS")
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "^test_" "" name ${name})
    set(target test_${kind}_${name})
    add_executable(${target} ${source} ${arg_EXTRA})
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE ${arg_DEFINE}
        $<$<NOT:$<BOOL:${WEFT_FABRIC}>>:WEFT_NO_FABRIC>)
    target_compile_options(${target} PRIVATE ${arg_OPTIONS})
    target_include_directories(${target} PRIVATE include core ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target} PRIVATE weft_test_support)
    if(WEFT_SANITIZE STREQUAL "thread" AND "${kind}.${name}" MATCHES "${weft_one_thread}")
        return()
    endif()
    add_test(NAME ${kind}.${name} COMMAND ${target})
    weft_test_properties(${kind}.${name} ${kind} ${target})
endfunction()

foreach(kind unit property fault golden integration)
    file(GLOB sources CONFIGURE_DEPENDS tests/${kind}/test_*.c)
    foreach(source ${sources})
        if(source MATCHES "bench_meet\\.c$")
            weft_cmocka_test(${kind} ${source} EXTRA tools/bench/fabric/meet.c tools/bench/fabric/line.c)
        elseif(source MATCHES "bench_noise\\.c$")
            weft_cmocka_test(${kind} ${source} EXTRA tools/bench/fabric/noise.c)
        elseif(source MATCHES "fabric_bench\\.c$")
            weft_cmocka_test(${kind} ${source} EXTRA tools/bench/fabric/end.c tools/bench/fabric/serve.c tools/bench/fabric/measure.c
                tools/bench/fabric/noise.c tools/bench/fabric/line.c)
        elseif(source MATCHES "unit/test_follow\\.c$")
            weft_cmocka_test(${kind} ${source} EXTRA tools/follow/follow.c
                tools/follow/follow_list.c tools/follow/checkpoint.c tools/follow/natural.c tools/output.c tools/signals.c)
        elseif(source MATCHES "(store|session)_disk\\.c$")
            # The library's file operations are the test's.
            set(name ${CMAKE_MATCH_1}_disk)
            weft_cmocka_test(${kind} ${source})
            target_link_options(test_fault_${name} PRIVATE LINKER:--wrap=write,--wrap=fsync,--wrap=mkdir
                LINKER:--wrap=renameat2,--wrap=unlink)
        elseif(source MATCHES "store_watch\\.c$")
            weft_cmocka_test(${kind} ${source})
            target_link_options(test_unit_store_watch PRIVATE LINKER:--wrap=opendir,--wrap=fstatfs,--wrap=statx
                LINKER:--wrap=inotify_add_watch)
        elseif(source MATCHES "unit/test_s3\\.c$")
            weft_cmocka_test(${kind} ${source})
            target_link_options(test_unit_s3 PRIVATE LINKER:--wrap=weft_curl_open)
        elseif(source MATCHES "model_written\\.c$")
            weft_cmocka_test(${kind} ${source})
            target_link_options(test_unit_model_written PRIVATE LINKER:--wrap=fstat,--wrap=fstatfs)
        elseif(NOT source MATCHES "_simde\\.c$")
            weft_cmocka_test(${kind} ${source})
        elseif(NOT WEFT_TEST_SIMDE)
            message(STATUS "Skipped ${source}: WEFT_TEST_SIMDE is off")
        elseif(WEFT_simde_INCLUDE)
            # Recompiles a kernel file against SIMDe, so that it runs on a CPU without its instructions. SIMDe passes
            # wide vectors without them and adds signed words that wrap. Nobody waits for what the compiler would make of
            # it beyond -O1.
            weft_cmocka_test(${kind} ${source} DEFINE WEFT_HAVE_AVX512 OPTIONS -Wno-psabi -fwrapv
                $<$<CONFIG:Release>:-O1> -include ${PROJECT_SOURCE_DIR}/tests/support/avx512_simde.h)
        else()
            message(STATUS "Skipped ${source}: SIMDe is missing (Debian: libsimde-dev)")
        endif()
    endforeach()
endforeach()

# Sessions whose ends bind by blocks with strides (tests/support/block_world.h): only with WEFT_FULL=1, since
# fault.session_blocks is the short form.
function(weft_blocks_test name)
    set(test fault.session_${name}.blocks)
    add_test(NAME ${test} COMMAND bash -c "test -z \"$WEFT_FULL\" || exec $<TARGET_FILE:test_fault_session_${name}>")
    weft_test_properties(${test} fault)
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT WEFT_TEST_BLOCKS=1)
    set_tests_properties(${test} PROPERTIES TIMEOUT 1500)
endfunction()

# Sessions whose rollouts have the tensors in another order than the trainer: only with WEFT_FULL=1, since
# fault.session_order is the short form.
function(weft_order_test name)
    set(test fault.session_${name}.order)
    add_test(NAME ${test} COMMAND bash -c "test -z \"$WEFT_FULL\" || exec $<TARGET_FILE:test_fault_session_${name}>")
    weft_test_properties(${test} fault)
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT WEFT_TEST_ORDER=1)
    set_tests_properties(${test} PROPERTIES TIMEOUT 1500)
endfunction()

# Sessions on the deferred backend (tests/support/deferred.h) instead of the host's, at both ends or one: only with
# WEFT_FULL=1, since fault.session_device is the short form.
function(weft_device_test name ends shadow)
    set(test fault.session_${name}.${ends})
    add_test(NAME ${test} COMMAND bash -c "test -z \"$WEFT_FULL\" || exec $<TARGET_FILE:test_fault_session_${name}>")
    weft_test_properties(${test} fault)
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT WEFT_TEST_DEVICE=${ends} WEFT_TEST_SHADOW=${shadow})
    set_tests_properties(${test} PROPERTIES TIMEOUT 1500)
endfunction()
if(NOT WEFT_SANITIZE STREQUAL "thread")
    foreach(name lossless atomic repair planes bridge bridge_tight relay eager eager_peers join journal levels query
            steady anew named)
        weft_device_test(${name} both device)
    endforeach()
    foreach(name lossless atomic repair planes bridge eager eager_peers join)
        weft_device_test(${name} trainer host)
        weft_device_test(${name} rollouts host)
    endforeach()
    foreach(name lossless atomic repair planes bridge bridge_tight relay eager join journal levels)
        weft_blocks_test(${name})
    endforeach()
    foreach(name lossless atomic planes bridge bridge_tight relay relay_sources sources store_sources eager join journal levels query
            steady unbind want)
        weft_order_test(${name})
    endforeach()
endif()

function(weft_script_test label script)
    get_filename_component(name ${script} NAME_WE)
    add_test(NAME ${label}.${name} COMMAND bash ${script})
    weft_test_properties(${label}.${name} ${label})
endfunction()

file(GLOB scripts CONFIGURE_DEPENDS tests/*.sh)
foreach(script ${scripts})
    weft_script_test(rules ${script})
endforeach()
file(GLOB scripts CONFIGURE_DEPENDS tests/integration/*.sh)
foreach(script ${scripts})
    weft_script_test(integration ${script})
endforeach()

# The public header as strict C11 and, where there is a compiler, as C++.
add_executable(test_header_c tests/cpp/header.c)
target_compile_options(test_header_c PRIVATE -pedantic-errors)
target_link_libraries(test_header_c PRIVATE weft)
add_test(NAME rules.header_c COMMAND test_header_c)
weft_test_properties(rules.header_c rules)

include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    add_executable(test_header_cpp tests/cpp/header.cpp)
    set_target_properties(test_header_cpp PROPERTIES CXX_STANDARD 11 CXX_EXTENSIONS OFF)
    target_compile_options(test_header_cpp PRIVATE -pedantic-errors)
    target_link_libraries(test_header_cpp PRIVATE weft)
    add_test(NAME rules.header_cpp COMMAND test_header_cpp)
    weft_test_properties(rules.header_cpp rules)
else()
    message(STATUS "Skipped rules.header_cpp: no C++ compiler (Debian: g++)")
endif()
