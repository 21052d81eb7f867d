// Products in blocks with sums of 16 bits: DST_ACCUM_MODE is 0.
#include "matmul_blocks.cpp"
