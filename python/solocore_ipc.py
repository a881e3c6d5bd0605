# SPDX-License-Identifier: MIT OR Apache-2.0
"""The old name of `solocore.queues`."""

import sys
import warnings

import solocore.queues

warnings.warn("solocore_ipc is now solocore.queues; import that", DeprecationWarning, stacklevel=2)
sys.modules[__name__] = solocore.queues
