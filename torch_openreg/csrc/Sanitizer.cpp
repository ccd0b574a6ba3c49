// The sanitizer: on, off, and its findings as dictionaries.
#include "Module.h"

#include "sanitizer/Sanitizer.h"
#include "sanitizer/Stacks.h"

#include <array>

namespace torch {

// Its header needs one that is not in the wheel.
std::vector<py::object> py_symbolize(std::vector<CapturedTraceback*>& contexts);

} // namespace torch

namespace torch::openreg {
namespace {

using namespace c10::openreg::sanitizer;

py::object framesOf(const std::shared_ptr<torch::CapturedTraceback>& stack) {
  if (!stack) {
    return py::list();
  }
  std::vector<torch::CapturedTraceback*> one{stack.get()};
  return py_symbolize(one)[0];
}

py::dict toDict(const std::shared_ptr<const Place>& place) {
  py::dict dict;
  const auto* stacks = dynamic_cast<const Stacks*>(place.get());
  dict["frames"] = stacks ? framesOf(stacks->here) : py::list();
  dict["forward"] = stacks ? framesOf(stacks->forward) : py::list();
  dict["node"] = stacks ? stacks->node : "";
  return dict;
}

// The id that Python knows a stream by: 0 for the default one.
uintptr_t idOf(const Work& work) {
  const bool isDefault = work.device >= 0 &&
      work.stream ==
          c10::openreg::getDefaultOpenRegStream(
              static_cast<c10::DeviceIndex>(work.device))
              .stream();
  return isDefault ? 0 : reinterpret_cast<uintptr_t>(work.stream);
}

py::object toDict(const std::optional<Culprit>& culprit) {
  if (!culprit) {
    return py::none();
  }
  const Work& work = *culprit->work;
  py::dict dict = toDict(work.place);
  dict["name"] = work.name;
  dict["writes"] = culprit->writes;
  dict["stream"] = idOf(work);
  dict["device"] = work.device;
  dict["replayed"] =
      work.replayed ? py::object(toDict(work.replayed)) : py::none();
  return dict;
}

py::dict toDict(const Block& block) {
  const auto placeOf = [](const PlacePtr& place) {
    return place ? py::object(toDict(place)) : py::none();
  };
  py::dict dict;
  dict["begin"] = block.range.begin;
  dict["end"] = block.range.end;
  dict["pinned"] = block.stream == nullptr;
  dict["number"] = block.allocated;
  dict["allocated"] = placeOf(block.allocatedAt);
  dict["freed"] = placeOf(block.freedAt);
  return dict;
}

const char* nameOf(Finding::Kind kind) {
  constexpr std::array kNames = {
      "race",
      "reuse",
      "use-after-free",
      "out-of-bounds",
      "overwritten",
      "uninitialized"};
  return kNames.at(kind);
}

py::dict toDict(const Finding& finding) {
  py::dict dict;
  dict["kind"] = nameOf(finding.kind);
  dict["begin"] = finding.range.begin;
  dict["end"] = finding.range.end;
  dict["earlier"] = toDict(finding.earlier);
  dict["later"] = toDict(finding.later);
  dict["block"] =
      finding.block ? py::object(toDict(*finding.block)) : py::none();
  return dict;
}

// Exceptions of the report have nobody to go to: the operator itself succeeds.
void enable(unsigned checks, const py::function& report) {
  auto* kept = new py::function(report); // it may be called until the very end
  Sanitizer::get().enable(checks, [kept](const Finding& finding) {
    const py::gil_scoped_acquire gil;
    try {
      (*kept)(toDict(finding));
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("the sanitizer's report");
    }
  });
}

} // namespace

void addSanitizer(py::module_& module) {
  module.def("_sanitizerEnable", &enable);
  module.def("_sanitizerLiveBlocks", [] {
    py::list blocks;
    for (const Block& block : Sanitizer::get().liveBlocks()) {
      blocks.append(toDict(block));
    }
    return blocks;
  });
  module.def("_sanitizerChecks", [] { return Sanitizer::get().checks(); });
  module.def(
      "_sanitizerDisable",
      [] { Sanitizer::get().disable(); },
      py::call_guard<py::gil_scoped_release>());
}

} // namespace torch::openreg
