/* words.hip - the tests' kernel as an image of its own. */
#include "kernels_hip/lanes.h"
#include "tests/isa/words.h"
