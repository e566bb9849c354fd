# The project's own CMake functions: weir_library, weir_test. Flags live on the target weir_flags.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(WEIR_CCACHE ccache)
if(WEIR_CCACHE)
  # The sloppiness lets ccache serve files that use a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${WEIR_CCACHE})
endif()

add_library(weir_flags INTERFACE)
target_include_directories(weir_flags INTERFACE ${CMAKE_SOURCE_DIR})
# -ffp-contract=off: the same arithmetic with and without FMA units, so that episodes repeat across machines.
target_compile_options(weir_flags INTERFACE -Wall -Wextra -Wno-unused-parameter -ffp-contract=off -fpch-preprocess)
if(WEIR_WERROR)
  target_compile_options(weir_flags INTERFACE -Werror)
endif()
find_program(WEIR_MOLD mold)
if(WEIR_MOLD)
  target_link_options(weir_flags INTERFACE -fuse-ld=mold)
endif()
if(WEIR_SANITIZE)
  target_compile_options(weir_flags INTERFACE -fsanitize=${WEIR_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(weir_flags INTERFACE -fsanitize=${WEIR_SANITIZE})
endif()

# weir_library(NAME [HEADERS h...] SOURCES cc... [PUBLIC lib...] [PRIVATE lib...])
# A static library weir_NAME with the alias weir::NAME. Public headers are verified to compile alone.
function(weir_library name)
  cmake_parse_arguments(A "" "" "HEADERS;SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(weir_${name} STATIC ${A_SOURCES})
  add_library(weir::${name} ALIAS weir_${name})
  target_sources(weir_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR} FILES ${A_HEADERS})
  set_target_properties(weir_${name} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  target_link_libraries(weir_${name} PUBLIC ${A_PUBLIC} PRIVATE weir_flags ${A_PRIVATE})
  target_include_directories(weir_${name} PUBLIC ${CMAKE_SOURCE_DIR})
endfunction()

# weir_test(NAME SOURCES cc... [LIBS lib...] [WHOLE] [LABELS l...] [TIMEOUT s])
# One CTest entry per case; with WHOLE one entry for the binary (LibTorch takes about 2 s to load).
function(weir_test name)
  cmake_parse_arguments(A "WHOLE" "TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE weir_flags ${A_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE WEIR_SOURCE_DIR="${CMAKE_SOURCE_DIR}" WEIR_BINARY_DIR="${CMAKE_BINARY_DIR}")
  if(A_WHOLE)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${A_TIMEOUT} LABELS "${A_LABELS}")
  else()
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${A_TIMEOUT} LABELS "${A_LABELS}")
  endif()
endfunction()

# weir_proto(NAME path/in/the/tree.proto): a static library weir_NAME of the generated code; include it as "path/in/the/tree.pb.h".
function(weir_proto name file)
  set(out ${CMAKE_BINARY_DIR}/generated)
  string(REGEX REPLACE "\\.proto$" "" stem ${file})
  add_custom_command(
    OUTPUT ${out}/${stem}.pb.cc ${out}/${stem}.pb.h
    COMMAND ${CMAKE_COMMAND} -E make_directory ${out}
    COMMAND protobuf::protoc --cpp_out=${out} -I ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/${file}
    DEPENDS ${CMAKE_SOURCE_DIR}/${file} VERBATIM)
  add_library(weir_${name} STATIC ${out}/${stem}.pb.cc ${out}/${stem}.pb.h)
  target_link_libraries(weir_${name} PUBLIC protobuf::libprotobuf)
  target_include_directories(weir_${name} SYSTEM PUBLIC ${out})
endfunction()

# weir_torch_tests(SOURCES cc... LIBS lib... SUITES name...): the executable torch_tests with a precompiled LibTorch header, and a CTest
# entry for the test suites whose name contains each of the names. A test in none of them is an error at test time (torch.AllSuites).
function(weir_torch_tests)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS;SUITES" ${ARGN})
  add_executable(torch_tests ${A_SOURCES})
  target_link_libraries(torch_tests PRIVATE weir_flags ${A_LIBS} weir::torch weir::libtorch GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(torch_tests PRIVATE WEIR_SOURCE_DIR="${CMAKE_SOURCE_DIR}" WEIR_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_precompile_headers(torch_tests PRIVATE <torch/torch.h> <torch/script.h> <gtest/gtest.h>)
  set(filters "")
  foreach(suite ${A_SUITES})
    add_test(NAME torch.${suite} COMMAND torch_tests --gtest_filter=*${suite}*.*)
    set_tests_properties(torch.${suite} PROPERTIES TIMEOUT 600 LABELS torch)
    list(APPEND filters "*${suite}*.*")
  endforeach()
  list(JOIN filters ":" all)
  add_test(NAME torch.AllSuites COMMAND torch_tests --gtest_list_tests --gtest_filter=-${all})
  set_tests_properties(torch.AllSuites PROPERTIES FAIL_REGULAR_EXPRESSION "  [A-Za-z]" LABELS torch)
endfunction()
