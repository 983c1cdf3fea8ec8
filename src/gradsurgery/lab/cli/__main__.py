"""``python -m gradsurgery.lab.cli``."""

import sys

from gradsurgery.lab.cli import main

sys.exit(main())
