#include <openreg.h>

int main(void) {
  int count = 0;
  return orGetDeviceCount(&count) == orSuccess && count > 0 ? 0 : 1;
}
