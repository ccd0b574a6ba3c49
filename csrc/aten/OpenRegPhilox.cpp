// Registration of random operators that draw a GPU's numbers. Where one of them has
// another kernel too, tools/generate_operators.py leaves that out with OPENREG_RNG=philox.
#include "aten/native/PhiloxChoices.h"
#include "aten/native/PhiloxDropout.h"
#include "aten/native/PhiloxFills.h"
#include "aten/native/PhiloxIntegers.h"
#include "aten/native/PhiloxSamples.h"

#include <ATen/native/UnaryOps.h>
#include <ATen/ops/multinomial_native.h>

#include "runtime/OpenRegLibrary.h"
#include "runtime/OpenRegPhilox.h"

namespace at::native {

namespace draws = openreg::philox;

REGISTER_PRIVATEUSE1_DISPATCH(
    multinomial_with_replacement_stub,
    &draws::multinomialWithReplacement)

OPENREG_LIBRARY_IMPL(aten, PrivateUse1, m) {
  if (!c10::openreg::drawsPhilox()) {
    return;
  }
  m.impl("_sample_dirichlet", TORCH_FN(draws::sample_dirichlet));
  m.impl("_standard_gamma", TORCH_FN(draws::standard_gamma));
  m.impl("bernoulli.out", TORCH_FN(draws::bernoulli_out));
  m.impl("bernoulli_.Tensor", TORCH_FN(draws::bernoulli_tensor_));
  m.impl("bernoulli_.float", TORCH_FN(draws::bernoulli_));
  m.impl("binomial", TORCH_FN(draws::binomial));
  m.impl("cauchy_", TORCH_FN(draws::cauchy_));
  m.impl("exponential_", TORCH_FN(draws::exponential_));
  m.impl("geometric_", TORCH_FN(draws::geometric_));
  m.impl("log_normal_", TORCH_FN(draws::log_normal_));
  m.impl("multinomial", TORCH_FN(at::native::multinomial));
  m.impl("multinomial.out", TORCH_FN(at::native::multinomial_out));
  m.impl("native_dropout", TORCH_FN(draws::native_dropout));
  m.impl("native_dropout_backward", TORCH_FN(draws::native_dropout_backward));
  m.impl("normal.Tensor_float", TORCH_FN(draws::normal_Tensor_float));
  m.impl("normal.Tensor_float_out", TORCH_FN(draws::normal_Tensor_float_out));
  m.impl("normal.float_Tensor", TORCH_FN(draws::normal_float_Tensor));
  m.impl("normal.float_Tensor_out", TORCH_FN(draws::normal_float_Tensor_out));
  m.impl("normal.Tensor_Tensor", TORCH_FN(draws::normal_Tensor_Tensor));
  m.impl("normal.Tensor_Tensor_out", TORCH_FN(draws::normal_Tensor_Tensor_out));
  m.impl("normal_", TORCH_FN(draws::normal_));
  m.impl("poisson", TORCH_FN(draws::poisson));
  m.impl("random_", TORCH_FN(draws::random_));
  m.impl("random_.from", TORCH_FN(draws::random_from_));
  m.impl("random_.to", TORCH_FN(draws::random_to_));
  m.impl("randperm.generator_out", TORCH_FN(draws::randperm_out));
  m.impl("rrelu_with_noise", TORCH_FN(draws::rrelu_with_noise));
  m.impl("rrelu_with_noise.out", TORCH_FN(draws::rrelu_with_noise_out));
  m.impl("rrelu_with_noise_", TORCH_FN(draws::rrelu_with_noise_));
  m.impl("uniform_", TORCH_FN(draws::uniform_));
}

} // namespace at::native
