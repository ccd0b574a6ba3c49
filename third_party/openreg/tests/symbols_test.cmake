# Fails if the library exports anything else than functions named or*.
execute_process(
  COMMAND ${NM} -D --defined-only --format=posix ${LIBRARY}
  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" lines "${symbols}")
list(FILTER lines EXCLUDE REGEX "^OPENREG_[0-9.]+ ")
set(functions ${lines})
list(FILTER functions INCLUDE REGEX "^or[A-Z].* T ")
list(LENGTH functions count)
if(count EQUAL 0)
  message(FATAL_ERROR "no function is exported:\n${symbols}")
endif()
list(FILTER lines EXCLUDE REGEX "^or[A-Z].* T ")
if(lines)
  message(FATAL_ERROR "exported by mistake: ${lines}")
endif()
message(STATUS "${count} functions are exported")
