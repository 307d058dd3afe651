"""Another name of ``tinytorch.core.transformers``."""

import sys

from tinytorch.core import transformers

sys.modules[__name__] = transformers
