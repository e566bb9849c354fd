# Run by every build (cmake -P): writes OUT with the commit of SOURCE and the text of TEMPLATE, and leaves it alone where nothing changed.
find_program(GIT git)
set(hash "unknown")
if(GIT)
  # Only a checkout of its own: a release inside somebody else's repository must not take that one's commit.
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --show-toplevel OUTPUT_VARIABLE top RESULT_VARIABLE failed
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH "${SOURCE}" source)
  if(NOT failed AND top STREQUAL source)
    execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=* OUTPUT_VARIABLE described
                    RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT failed)
      set(hash "${described}")
    endif()
  endif()
endif()
file(READ ${TEMPLATE} html)
file(WRITE ${OUT}.new "#include \"cli/compare/build_info.h\"

namespace weir::cli {

std::string_view GitHash() {
  return \"${hash}\";
}

const std::string_view kReportTemplate = R\"weir_html(${html})weir_html\";

}  // namespace weir::cli
")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different ${OUT}.new ${OUT})
