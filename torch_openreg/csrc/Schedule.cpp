// The order in which queued work runs.
#include "Module.h"

#include "runtime/OpenRegSchedule.h"

#include <pybind11/stl.h>

namespace torch::openreg {

void addSchedule(py::module_& module) {
  module.def(
      "_setSchedule",
      torch::wrap_pybind_function_no_gil(c10::openreg::set_schedule),
      py::arg("schedule"),
      py::arg("seed"),
      py::arg("delays"));
  module.def(
      "_getSchedule", torch::wrap_pybind_function(c10::openreg::get_schedule));
  module.def(
      "_scheduledTasks", torch::wrap_pybind_function([] {
        py::list tasks;
        for (const auto& task : c10::openreg::scheduled_tasks()) {
          tasks.append(py::make_tuple(task.name, task.stream, task.device));
        }
        return tasks;
      }));
}

} // namespace torch::openreg
