#include <openreg.h>

int main() {
  orStream_t stream = nullptr;
  int ran = 0;
  const bool launched = orStreamCreate(&stream) == orSuccess &&
      orLaunchKernel(
          stream, [&ran](int by) { ran += by; }, 1) == orSuccess &&
      orStreamSynchronize(stream) == orSuccess;
  return launched && ran == 1 ? 0 : 1;
}
