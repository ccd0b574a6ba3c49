#include "executor/OperatorInfo.h"

#include "executor/LibraryWorkspaces.h"

#include <ATen/core/enum_tag.h>
#include <ATen/core/jit_type.h>

#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace at::native::openreg {
namespace {

c10::OperatorHandle find(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

uint64_t writtenArguments(const c10::FunctionSchema& schema) {
  uint64_t written = 0;
  for (size_t place = 0; place < schema.arguments().size(); ++place) {
    const auto* alias = schema.arguments()[place].alias_info();
    if (alias && alias->isWrite()) {
      written |= uint64_t{1} << place;
    }
  }
  if (schema.name() == "aten::native_batch_norm") {
    written |= 0b11000; // the running mean and variance, which it does not say
  }
  return written;
}

std::optional<size_t> generatorArgument(const c10::FunctionSchema& schema) {
  for (size_t place = 0; place < schema.arguments().size(); ++place) {
    const auto type = schema.arguments()[place].real_type()->str();
    if (type.find("Generator") != std::string::npos) {
      return place;
    }
  }
  return std::nullopt;
}

// The operators whose kernels look at indices or probabilities, by their names
// without overload and without the underscore of the form that changes its argument.
bool checksDataInKernel(std::string_view name) {
  static const std::unordered_set<std::string_view> names{
      "aten::_index_put_impl_",
      "aten::bernoulli",
      "aten::binary_cross_entropy",
      "aten::embedding_dense_backward",
      "aten::gather",
      "aten::index",
      "aten::index_add",
      "aten::index_copy",
      "aten::index_fill",
      "aten::index_reduce",
      "aten::index_select",
      "aten::max_unpool2d",
      "aten::max_unpool3d",
      "aten::multinomial",
      "aten::nll_loss2d_forward",
      "aten::nll_loss_forward",
      "aten::put",
      "aten::scatter",
      "aten::scatter_add",
      "aten::scatter_reduce",
      "aten::take",
  };
  return names.contains(name) ||
      (name.ends_with('_') && names.contains(name.substr(0, name.size() - 1)));
}

KernelChecks kernelChecksOf(const c10::FunctionSchema& schema) {
  if (schema.argumentIndexWithName("check_errors")) {
    return KernelChecks::NumbersIfAsked;
  }
  static const std::unordered_map<std::string_view, KernelChecks> known{
      {"aten::_linalg_eigh", KernelChecks::Numbers},
      {"aten::_linalg_svd", KernelChecks::Numbers},
      {"aten::fractional_max_pool2d", KernelChecks::Arguments},
      {"aten::fractional_max_pool3d", KernelChecks::Arguments},
      {"aten::isin", KernelChecks::Arguments}, // strides
      {"aten::nll_loss_forward", KernelChecks::WeightDtype},
      {"aten::renorm", KernelChecks::Arguments},
  };
  const auto found = known.find(schema.name());
  return found == known.end() ? KernelChecks::Nothing : found->second;
}

// Of index_put the form that waits is the one for masks.
bool readsDataInCall(const c10::OperatorHandle& op, OutputSource source) {
  return source == OutputSource::Kernel &&
      (op.hasTag(at::Tag::dynamic_output_shape) ||
       op.hasTag(at::Tag::data_dependent_output) ||
       op.schema().name() == "aten::_index_put_impl_");
}

// Found by comparing the CPU's results with 1, 2, 4 and 8 threads: those not in here are
// the same bits.
ThreadSums threadSumsOf(std::string_view name, bool typed) {
  static const std::unordered_map<std::string_view, ThreadSums> known{
      {"aten::_fft_c2c", ThreadSums::Always},
      {"aten::_fft_c2r", ThreadSums::Always},
      {"aten::_fft_r2c", ThreadSums::Always},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", ThreadSums::Always},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
       ThreadSums::Always},
      {"aten::_weight_norm_interface", ThreadSums::Always},
      {"aten::_weight_norm_interface_backward", ThreadSums::Always},
      {"aten::convolution_backward_overrideable", ThreadSums::Always},
      {"aten::convolution_overrideable", ThreadSums::Always},
      {"aten::mkldnn_rnn_layer", ThreadSums::Always},
      {"aten::mkldnn_rnn_layer_backward", ThreadSums::Always},
      {"aten::_log_softmax", ThreadSums::UnlessLastDim},
      {"aten::_softmax", ThreadSums::UnlessLastDim},
      {"aten::native_batch_norm", ThreadSums::UnlessImages},
      {"aten::native_batch_norm_backward", ThreadSums::UnlessImages},
      {"aten::native_group_norm_backward", ThreadSums::OfParameters},
      {"aten::native_layer_norm_backward", ThreadSums::OfParameters},
      {"aten::addmv", ThreadSums::IfLarge},
      {"aten::dot", ThreadSums::IfLarge},
      {"aten::mean", ThreadSums::IfLargeSum},
      {"aten::mse_loss", ThreadSums::IfLarge},
      {"aten::nansum", ThreadSums::IfLarge},
      {"aten::norm", ThreadSums::IfLarge},
      {"aten::prod", ThreadSums::IfLarge},
      {"aten::smooth_l1_loss", ThreadSums::IfLarge},
      {"aten::huber_loss", ThreadSums::IfLarge},
      {"aten::std", ThreadSums::IfLarge},
      {"aten::std_mean", ThreadSums::IfLarge},
      {"aten::sum", ThreadSums::IfLargeSum},
      {"aten::var", ThreadSums::IfLarge},
      {"aten::var_mean", ThreadSums::IfLarge},
  };
  if (name.starts_with("aten::linalg_") || name.starts_with("aten::_linalg_")) {
    return ThreadSums::IfLarge; // MKL's factorizations
  }
  const auto found = known.find(name);
  const auto sums = found != known.end() ? found->second
      : isMatrixProduct(name)            ? ThreadSums::IfUneven
                                         : ThreadSums::Never;
  // The others look at arguments, which are boxed.
  return typed || sums <= ThreadSums::IfLarge ? sums : ThreadSums::Always;
}

} // namespace

const char* immortalName(const c10::OperatorName& name) {
  static std::mutex mutex;
  static auto* names = new std::unordered_set<std::string>;
  const std::lock_guard lock(mutex);
  return names->insert(c10::toString(name)).first->c_str();
}

void SupportedVariants::add(uint64_t variant) {
  for (auto& supported : variants_) {
    uint64_t known = 0;
    if (supported.compare_exchange_strong(known, variant) || known == variant) {
      return;
    }
  }
}

OperatorInfo::OperatorInfo(
    c10::OperatorHandle op,
    c10::DispatchKey key,
    c10::DispatchKey cpuKey,
    OutputSource source,
    RunStructured structured,
    RunKernel typed,
    bool callsOthers,
    OperatorInfo* out)
    : handle(op),
      name(immortalName(op.operator_name())),
      kernel(cpuKey),
      outputs(source),
      devices(op.schema(), key),
      written(writtenArguments(op.schema())),
      generator(generatorArgument(op.schema())),
      checksData(checksDataInKernel(op.schema().name())),
      kernelChecks(kernelChecksOf(op.schema())),
      readsData(readsDataInCall(op, source)),
      isProduct(isMatrixProduct(op.schema().name())),
      addsFirst(op.schema().name().find("add") != std::string::npos),
      addsRows(op.schema().name().find("addmm") != std::string::npos),
      threadSums(threadSumsOf(op.schema().name(), structured || typed)),
      wantsCpuTensors(op.schema().name().starts_with("aten::gelu")),
      mayResize(written != 0 && (!typed || !op.schema().name().ends_with('_'))),
      runStructured(structured),
      runKernel(typed),
      callsKernels(callsOthers),
      outForm(out),
      waits(FallbackCount::of(name, FallbackKind::Waits)),
      firstCalls(FallbackCount::of(name, FallbackKind::FirstCall)),
      staysHere(FallbackCount::of(name, FallbackKind::StaysHere)) {}

OperatorInfo::OperatorInfo(
    const char* name,
    const char* overload,
    OperatorInfo* out,
    RunStructured run)
    : OperatorInfo(
          find(name, overload),
          c10::openreg::kKey,
          c10::DispatchKey::CPU,
          OutputSource::Meta,
          run,
          nullptr,
          false,
          out) {}

OperatorInfo::OperatorInfo(
    const char* name,
    const char* overload,
    OutputSource outputs,
    RunKernel run,
    bool callsKernels)
    : OperatorInfo(
          find(name, overload),
          c10::openreg::kKey,
          c10::DispatchKey::CPU,
          outputs,
          nullptr,
          run,
          callsKernels,
          nullptr) {}

OperatorInfo::OperatorInfo(
    c10::OperatorHandle op,
    c10::DispatchKey key,
    c10::DispatchKey cpuKey)
    : OperatorInfo(
          op,
          key,
          cpuKey,
          OutputSource::Kernel,
          nullptr,
          nullptr,
          false,
          nullptr) {}

} // namespace at::native::openreg
