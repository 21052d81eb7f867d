// Does nothing: what launching a program costs. Any processor. No arguments.

#include "reprise/kernel.h"

void kernel_main(void) {}
