"""Need what is not there."""

import another_module  # noqa: F401
