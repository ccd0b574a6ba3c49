# Finds the torch that pyproject.toml pins, in CMAKE_PREFIX_PATH or else where
# Python has it, and libtorch_python, which torch's own package leaves out.
file(STRINGS ${PROJECT_SOURCE_DIR}/pyproject.toml pin
  REGEX "torch==[0-9.]+" LIMIT_COUNT 1)
string(REGEX REPLACE ".*torch==([0-9.]+).*" "\\1" pin "${pin}")
# CMake runs again when the pin changes.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS pyproject.toml)

# Not `import torch`: it would load the very package that is being built.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c
    "from importlib.util import *; print(*find_spec('torch').submodule_search_locations)"
  OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)

# torch's package warns of a static libkineto that its wheel does not ship.
set(kineto_LIBRARY c10)
find_package(Torch QUIET HINTS ${folder}/share/cmake/Torch)
if(NOT Torch_FOUND)
  message(FATAL_ERROR
    "torch ${pin} is needed, but ${Python_EXECUTABLE} has none: "
    "pip install torch==${pin}")
endif()
if(NOT Torch_VERSION VERSION_EQUAL pin)
  message(FATAL_ERROR
    "torch ${pin} is needed, but ${Torch_VERSION} was found: "
    "pip install torch==${pin}")
endif()

find_library(TORCH_PYTHON_LIBRARY torch_python REQUIRED
  PATHS ${TORCH_INSTALL_PREFIX}/lib NO_DEFAULT_PATH)
