# Kernels on the host: tests/emulation/*.cpp are the engine and the kernels, compiled for 32 and for 64 lanes; every
# tests/emulation/test_*.c is one cmocka executable. Under the thread checker lanes are threads, else fibers.
function(weft_emulation_lanes lanes)
    add_library(weft_emulation_${lanes} OBJECT tests/emulation/emulation.cpp tests/emulation/broken.cpp)
    target_compile_definitions(weft_emulation_${lanes} PRIVATE WEFT_LANES=${lanes})
    target_link_libraries(weft_emulation PRIVATE weft_emulation_${lanes})
endfunction()

if(CMAKE_CXX_COMPILER)
    set(engine tests/emulation/fibers.cpp tests/emulation/fiber.cpp)
    if(WEFT_SANITIZE STREQUAL "thread")
        set(engine tests/emulation/threads.cpp)
    endif()
    add_library(weft_emulation STATIC tests/emulation/launch.cpp ${engine})
    weft_emulation_lanes(32)
    weft_emulation_lanes(64)
    foreach(target weft_emulation weft_emulation_32 weft_emulation_64)
        set_target_properties(${target} PROPERTIES CXX_STANDARD 17 CXX_EXTENSIONS OFF)
        target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
        if(WEFT_SANITIZE STREQUAL "address")
            # fibers have no stack for frames that are over
            target_compile_options(${target} PRIVATE
                $<IF:$<CXX_COMPILER_ID:GNU>,--param=asan-use-after-return=0,-fsanitize-address-use-after-return=never>)
            # these checks of clang want the C++ runtime, which programs in C are not linked with
            target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function,vptr>)
        endif()
    endforeach()
    # A driver whose launches are emulated, for what stands above drivers.
    add_library(weft_emulation_driver STATIC tests/emulation/driver.c)
    target_include_directories(weft_emulation_driver PRIVATE include core ${PROJECT_SOURCE_DIR})
    file(GLOB sources CONFIGURE_DEPENDS tests/emulation/test_*.c)
    foreach(source ${sources})
        weft_cmocka_test(emulation ${source} EXTRA tests/emulation/world.c)
        get_filename_component(name ${source} NAME_WE)
        string(REGEX REPLACE "^test_" "" name ${name})
        target_link_libraries(test_emulation_${name} PRIVATE weft_emulation_driver weft_emulation stdc++)
        if(WEFT_SANITIZE STREQUAL "thread")
            target_compile_definitions(test_emulation_${name} PRIVATE WEFT_EMULATION_THREADS)
            # 512 lanes that are threads take minutes for the short form; the long one has more inputs, not other accesses
            set_property(TEST emulation.${name} APPEND PROPERTY ENVIRONMENT_MODIFICATION WEFT_FULL=unset:)
            set_property(TEST emulation.${name} PROPERTY COST 100)
        endif()
    endforeach()
    # What the thread checker sees of the kernels: little work.
    foreach(name engine digest encode)
        add_dependencies(threads test_emulation_${name})
        set_property(TEST emulation.${name} APPEND PROPERTY LABELS threads)
    endforeach()
    foreach(name decode decode_edges encode) # scratch_guard.h
        target_link_options(test_emulation_${name} PRIVATE LINKER:--wrap=weft_gpu_sheet_take)
    endforeach()
else()
    message(STATUS "Skipped the emulation of kernels: no C++ compiler (Debian: g++)")
endif()
