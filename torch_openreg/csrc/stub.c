/* The entry point Python looks for. The module itself is in libtorch_bindings,
 * which other extensions can link; they cannot link a Python module. */
#include <Python.h>

extern PyObject* initOpenRegModule(void);

PyMODINIT_FUNC PyInit__C(void);

PyMODINIT_FUNC PyInit__C(void) {
  return initOpenRegModule();
}
