#include "attempts.h"
void add_protected(void) {}
