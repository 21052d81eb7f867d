// Products in blocks of matrices of tiles of which one, or both, are transposed.
#define TRANSPOSED 1
#include "matmul_blocks.cpp"
