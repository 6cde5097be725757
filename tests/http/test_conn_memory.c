#include "tests/test.h"
TEST(x)
{
}
