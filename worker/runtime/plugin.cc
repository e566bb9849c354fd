// The exported C symbols of libweir_torch.so that belong to no other file.
#include <ATen/Parallel.h>

extern "C" void weir_torch_set_threads(int threads) { at::set_num_threads(threads); }
