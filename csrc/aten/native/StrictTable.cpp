#include "aten/native/Strict.h"

#include "runtime/OpenRegDeviceType.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

namespace at::native::openreg {
namespace strict_table { // has names of dtypes for sets of them
namespace {

using enum RefusalKind;

constexpr DtypeSet dtypes(std::initializer_list<c10::ScalarType> list) {
  DtypeSet set = 0;
  for (const c10::ScalarType dtype : list) {
    set |= DtypeSet(1) << static_cast<int>(dtype);
  }
  return set;
}

constexpr DtypeSet kBool = dtypes({c10::kBool});
constexpr DtypeSet kByte = dtypes({c10::kByte});
constexpr DtypeSet kNumbers =
    dtypes({c10::kByte, c10::kChar, c10::kShort, c10::kInt, c10::kLong});
constexpr DtypeSet kIntegers = kNumbers | kBool;
constexpr DtypeSet kComplex = dtypes({c10::kComplexFloat, c10::kComplexDouble});
constexpr DtypeSet kHalf = dtypes({c10::kHalf});
constexpr DtypeSet kBFloat = dtypes({c10::kBFloat16});
constexpr DtypeSet kSingleAndDouble = dtypes({c10::kFloat, c10::kDouble});
constexpr DtypeSet kFloats = kHalf | kBFloat | kSingleAndDouble;
// Those that cuDNN and cuSPARSE have a name for, but no kernel.
constexpr DtypeSet kCudnnNames = dtypes({c10::kInt, c10::kChar, c10::kByte});
constexpr DtypeSet kCusparseNames = dtypes({c10::kInt, c10::kChar});
constexpr DtypeSet kCusparseRefused =
    dtypes({c10::kLong, c10::kShort, c10::kByte});
constexpr DtypeSet kAny = ~DtypeSet(0);

constexpr LayoutSet kDense = layoutSet(c10::kStrided);
constexpr LayoutSet kCoo = layoutSet(c10::kSparse);
constexpr LayoutSet kCsr = layoutSet(c10::kSparseCsr);
constexpr LayoutSet kCompressed = layoutSet(c10::kSparseCsr, c10::kSparseCsc);
constexpr LayoutSet kBlocks = layoutSet(c10::kSparseBsr);

bool notEmpty(Arguments arguments, size_t place) {
  return arguments[place].toTensor().numel() != 0;
}

// Of a product without elements, or of sums without terms, no kernel is launched.
bool hasProduct(Arguments arguments, size_t place) {
  return notEmpty(arguments, place) && notEmpty(arguments, place + 1);
}

// Autocast makes some of the operator's steps float32.
bool isCastAndNotEmpty(Arguments arguments, size_t place) {
  return autocast::is_autocast_enabled(c10::openreg::kDeviceType) &&
      notEmpty(arguments, place);
}

bool otherIsSparse(Arguments arguments, size_t place) {
  return arguments[place + 1].toTensor().layout() != c10::kStrided;
}

bool blockIsOneWide(Arguments arguments, size_t place) {
  return arguments[place].toTensor().values().size(-1) <= 1 &&
      !otherIsSparse(arguments, place);
}

bool isQuantized(Arguments arguments, size_t place) {
  return arguments[place].toTensor().is_quantized();
}

bool isTrue(Arguments arguments, size_t place) {
  return arguments[place].toBool();
}

// put_(self, index, source, accumulate): PyTorch itself alerts without accumulate.
bool accumulates(Arguments arguments, size_t /*place*/) {
  return isTrue(arguments, 3);
}

// bincount(self, weights, minlength)
bool hasWeights(Arguments arguments, size_t /*place*/) {
  return arguments[1].isTensor() && arguments[1].toTensor().defined();
}

// nll_loss2d_forward(self, target, weight, reduction, ignore_index)
bool isReduced(Arguments arguments, size_t /*place*/) {
  return arguments[3].toInt() != Reduction::None;
}

// _embedding_bag_backward(…, num_weights, scale_grad_by_freq, mode, …)
bool takesMaximum(Arguments arguments, size_t /*place*/) {
  constexpr int64_t kMaximum = 2;
  return arguments[8].toInt() == kMaximum;
}

// scatter_reduce(self, dim, index, src, reduce)
template <const char*... names>
bool reducesBy(Arguments arguments, size_t /*place*/) {
  const auto& reduce = arguments[4].toStringRef();
  return ((reduce == names) || ...);
}
constexpr char kProd[] = "prod";
constexpr char kMean[] = "mean";
constexpr char kAmin[] = "amin";
constexpr char kAmax[] = "amax";

// scatter(self, dim, index, src, reduce): sums of one dimension become an index_put_().
bool scattersInAnyOrder(Arguments arguments, size_t /*place*/) {
  return arguments[0].toTensor().dim() != 1 ||
      arguments[4].toStringRef() != "add";
}

// _ctc_loss_backward(grad, log_probs, targets, input_lengths, target_lengths,
// neg_log_likelihood, log_alpha, blank, zero_infinity). cuDNN has a kernel that is
// deterministic, for targets of 32 bits in the host's memory. Both were changed before
// this operator is called, so that only the other conditions can be looked at.
bool cudnnHasNoCtcLoss(Arguments arguments, size_t /*place*/) {
  if (!arguments[3].isIntList()) {
    return true;
  }
  const int64_t length = arguments[1].toTensor().size(0);
  const auto inputs = arguments[3].toIntVector();
  const auto targets = arguments[4].toIntVector();
  return arguments[2].toTensor().dim() != 1 || arguments[7].toInt() != 0 ||
      std::ranges::any_of(inputs, [&](auto n) { return n != length; }) ||
      std::ranges::any_of(targets, [](auto n) { return n > 256; });
}

constexpr char kCreateCsr[] =
    "CUDA error: invalid value when calling `cusparseCreateCsr( "
    "&raw_descriptor, "
    "rows, cols, nnz, static_cast<char*>(crow_indices.data_ptr()) + "
    "batch_offset * "
    "crow_indices_batch_stride * crow_indices.itemsize(), "
    "static_cast<char*>(col_indices.data_ptr()) + batch_offset * "
    "col_indices_batch_stride * col_indices.itemsize(), "
    "static_cast<char*>(values.data_ptr()) + batch_offset * "
    "values_batch_stride * "
    "values.itemsize(), index_type, index_type, CUSPARSE_INDEX_BASE_ZERO, "
    "value_type )`";
constexpr char kMixedPut[] =
    "Index put requires the source and destination dtypes match, got @ for the "
    "destination and Float for the source.";
constexpr char kNoCudaType[] =
    "false INTERNAL ASSERT FAILED at "
    "\"/pytorch/aten/src/ATen/cuda/CUDADataType.h\":98, "
    "please report a bug to PyTorch. Cannot convert ScalarType Bool to "
    "cudaDataType.";
constexpr char kBlockProduct[] =
    "mat1.values().size(-1) > 1 INTERNAL ASSERT FAILED at "
    "\"/pytorch/aten/src/ATen/native/sparse/cuda/SparseBlasImpl.cpp\":424, "
    "please report a bug to PyTorch. ";
constexpr char kBlockVector[] =
    "mat.values().size(-1) > 1 INTERNAL ASSERT FAILED at "
    "\"/pytorch/aten/src/ATen/native/sparse/cuda/SparseBlasImpl.cpp\":359, "
    "please report a bug to PyTorch. ";
constexpr char kNoEngine[] =
    "GET was unable to find an engine to execute this computation";
constexpr char kNoCudnnType[] =
    "getCudnnDataTypeFromScalarType() not supported for @";

// clang-format off
constexpr Refusal kRefusals[] = {
    // Products of matrices.
    {"mm", Kernel, "addmm_cuda", kIntegers, 0, kDense, hasProduct},
    {"addmm addmm_", Kernel, "addmm_cuda", kIntegers, 1, kDense, hasProduct},
    {"addbmm addbmm_", Kernel, "addmm_cuda", kIntegers, 1, kDense, hasProduct},
    {"bmm", Kernel, "baddbmm_cuda", kIntegers, 0, kDense, hasProduct},
    {"baddbmm baddbmm_", Kernel, "baddbmm_cuda", kIntegers, 1, kDense, hasProduct},
    {"addmv addmv_", Kernel, "addmv_impl_cuda", kIntegers, 1, kDense, hasProduct},
    {"dot vdot", Kernel, "dot", kIntegers},
    // Products of sparse matrices.
    {"mm", Kernel, "sparse_matmul", kIntegers, 0, kCoo, otherIsSparse},
    {"mm mv", Kernel, "addmm_sparse_cuda", kIntegers, 0, kCoo},
    {"addmm addmm_ _sparse_addmm", Kernel, "addmm_sparse_cuda", kIntegers, 1, kCoo},
    {"sparse_sampled_addmm", Missing, "", kAny, 0, kCoo},
    {"sparse_sampled_addmm", Kernel, "sampled_addmm_out_sparse_csr", kIntegers, 0, kCsr},
    {"_sparse_mm_reduce_impl", Missing, "", kAny, 0, kCsr},
    {"mm mv", Sentence, kCreateCsr, kCusparseRefused, 0, kCompressed},
    {"mm mv", Sentence, kNoCudaType, kBool, 0, kCompressed},
    {"mm", Kernel, "spgemm", kCusparseNames, 0, kCompressed, otherIsSparse},
    {"mm", Kernel, "spmm", kCusparseNames, 0, kCompressed},
    {"mv", Kernel, "addmv_out_sparse_csr_cuda_impl", kCusparseNames, 0, kCompressed},
    {"addmm addmm_ addmv addmv_", Sentence, kCreateCsr, kCusparseRefused, 1, kCompressed},
    {"addmm addmm_ addmv addmv_", Sentence, kNoCudaType, kBool, 1, kCompressed},
    {"addmm addmm_", Kernel, "spgemm", kCusparseNames, 1, kCompressed, otherIsSparse},
    {"addmm addmm_", Kernel, "spmm", kCusparseNames, 1, kCompressed},
    {"addmv addmv_", Kernel, "addmv_out_sparse_csr_cuda_impl", kCusparseNames, 1, kCompressed},
    {"mm", Sentence, kBlockProduct, kAny, 0, kBlocks, blockIsOneWide},
    {"addmm addmm_", Sentence, kBlockProduct, kAny, 1, kBlocks, blockIsOneWide},
    {"mv", Sentence, kBlockVector, kAny, 0, kBlocks, blockIsOneWide},
    {"addmv addmv_", Sentence, kBlockVector, kAny, 1, kBlocks, blockIsOneWide},
    // Convolutions and pooling.
    {"convolution convolution_overrideable", Sentence, kNoEngine, kCudnnNames},
    {"convolution convolution_overrideable", Sentence, kNoCudnnType, kIntegers & ~kCudnnNames},
    {"avg_pool1d avg_pool2d", Kernel, "avg_pool2d_out_cuda_frame", kIntegers, 0, kDense, notEmpty},
    {"avg_pool3d", Kernel, "avg_pool3d_out_cuda", kIntegers, 0, kDense, notEmpty},
    {"max_pool2d_with_indices", Kernel, "max_pool2d_with_indices_out_cuda_frame", kIntegers, 0, kDense, notEmpty},
    {"max_pool3d_with_indices", Kernel, "max_pool3d_with_indices_out_frame", kIntegers, 0, kDense, notEmpty},
    {"_adaptive_avg_pool2d adaptive_avg_pool2d.out", Kernel, "adaptive_avg_pool2d_cuda", kIntegers, 0, kDense, notEmpty},
    {"_adaptive_avg_pool3d adaptive_avg_pool3d.out", Kernel, "adaptive_avg_pool3d_cuda", kIntegers, 0, kDense, notEmpty},
    {"adaptive_max_pool2d", Kernel, "adaptive_max_pool2d_cuda", kIntegers, 0, kDense, notEmpty},
    {"adaptive_max_pool3d", Kernel, "adaptive_max_pool3d_cuda", kIntegers, 0, kDense, notEmpty},
    // Images.
    {"im2col", Kernel, "im2col_out_cuda", kNumbers, 0, kDense, notEmpty},
    {"col2im", Kernel, "col2im_out_cuda", kNumbers, 0, kDense, notEmpty},
    {"upsample_nearest2d", Kernel, "upsample_nearest2d_out_frame", kIntegers & ~kByte, 0, kDense, notEmpty},
    {"upsample_bilinear2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa", Kernel, "upsample_bilinear2d_out_frame", kIntegers, 0, kDense, notEmpty},
    {"upsample_bicubic2d", Kernel, "upsample_bicubic2d_out_frame", kIntegers, 0, kDense, notEmpty},
    {"reflection_pad2d", Kernel, "reflection_pad2d_out_template", kBool, 0, kDense, notEmpty},
    {"replication_pad2d", Kernel, "replication_pad2d_cuda", kBool, 0, kDense, notEmpty},
    {"grid_sampler_2d", Kernel, "grid_sampler_2d_cuda", kIntegers, 0, kDense, notEmpty},
    // Layers.
    {"_softmax _log_softmax", Kernel, "host_softmax", kIntegers, 0, kDense, notEmpty},
    {"gelu gelu_", Kernel, "GeluCUDAKernelImpl", kIntegers},
    {"_embedding_bag _embedding_bag_forward_only", Kernel, "embedding_bag_cuda", kIntegers},
    {"native_layer_norm", Kernel, "LayerNormKernelImpl", kIntegers, 0, kDense, notEmpty},
    {"native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training", Kernel, "batch_norm_invert_std_cuda", kIntegers, 0, kDense, notEmpty},
    {"native_dropout_backward", Kernel, "masked_scale", kIntegers | kComplex},
    // Others.
    {"angle", Kernel, "angle_cuda", kHalf | kBFloat},
    {"igamma igamma_", Kernel, "igamma_cuda", kHalf | kBFloat},
    {"igammac igammac_", Kernel, "igammac_cuda", kHalf | kBFloat},
    {"histc", Sentence, "HalfTensor is not supported", kHalf},
    {"histc", Kernel, "histc", kBFloat | kBool},
    {"linalg_matrix_exp", Sentence, kMixedPut, kHalf | kBFloat, 0, kDense, isCastAndNotEmpty},
    {"histogram _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors", Missing, "", kFloats},
    {"resize_", Missing, "", kAny, 0, kDense, isQuantized},
    {"scatter_reduce scatter_reduce_", Kernel, "cuda_scatter_gather_base_kernel_func", kBool, 0, kDense, reducesBy<kProd, kAmin, kAmax>},
    {"scatter_reduce scatter_reduce_", Kernel, "cuda_scatter_gather_base_kernel_func", kComplex, 0, kDense, reducesBy<kProd, kMean>},
    // Without a deterministic implementation.
    {"_adaptive_avg_pool2d_backward", Alert, "adaptive_avg_pool2d_backward_cuda"},
    {"_adaptive_avg_pool3d_backward", Alert, "adaptive_avg_pool3d_backward_cuda"},
    {"adaptive_max_pool2d_backward", Alert, "adaptive_max_pool2d_backward_cuda"},
    {"avg_pool3d_backward", Alert, "avg_pool3d_backward_cuda"},
    {"max_pool3d_with_indices_backward", Alert, "max_pool3d_with_indices_backward_cuda"},
    {"fractional_max_pool2d_backward", Alert, "fractional_max_pool2d_backward_cuda"},
    {"fractional_max_pool3d_backward", Alert, "fractional_max_pool3d_backward_cuda"},
    {"max_unpool2d", Alert, "max_unpooling2d_forward_out"},
    {"max_unpool3d", Alert, "max_unpooling3d_forward_out"},
    {"upsample_linear1d_backward", Alert, "upsample_linear1d_backward_out_cuda"},
    {"upsample_bicubic2d_backward", Alert, "upsample_bicubic2d_backward_out_cuda"},
    {"_upsample_bilinear2d_aa_backward", Alert, "upsample_bilinear2d_aa_backward_out_cuda"},
    {"reflection_pad1d_backward", Alert, "reflection_pad1d_backward_out_cuda"},
    {"reflection_pad3d_backward", Alert, "reflection_pad3d_backward_out_cuda"},
    {"grid_sampler_2d_backward", Alert, "grid_sampler_2d_backward_cuda"},
    {"grid_sampler_3d_backward", Alert, "grid_sampler_3d_backward_cuda"},
    {"nll_loss2d_forward", Alert, "nll_loss2d_forward_out_cuda_template", kAny, 0, kDense, isReduced},
    {"_ctc_loss_backward", Alert, "ctc_loss_backward_gpu", kAny, 0, kDense, cudnnHasNoCtcLoss},
    {"_embedding_bag_backward", Alert, "embedding_bag_backward_cuda_max", kAny, 0, kDense, takesMaximum},
    {"put_", Alert, "put_", kAny, 0, kDense, accumulates},
    {"histc", Alert, "_histc_cuda with floating point input", kSingleAndDouble},
    {"bincount", Alert, "_bincount_cuda", kAny, 0, kDense, hasWeights},
    {"median.dim_values nanmedian.dim_values", Alert, "median CUDA with indices output"},
    {"scatter_reduce scatter_reduce_", Alert, "scatter_reduce_cuda_prod_", kAny, 0, kDense, reducesBy<kProd>},
    {"scatter.reduce scatter_.reduce scatter.reduce_out", Alert, "scatter_reduce_cuda_kernel", kAny, 0, kDense, scattersInAnyOrder},
    {"index_reduce index_reduce_", Alert, "index_reduce_cuda"},
};
// clang-format on

} // namespace
} // namespace strict_table

std::span<const Refusal> refusals() {
  return strict_table::kRefusals;
}

} // namespace at::native::openreg
