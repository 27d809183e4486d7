"""``python -m heedmap``."""

import sys

from heedmap.cli.main import main

sys.exit(main())
