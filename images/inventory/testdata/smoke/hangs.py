"""Never end."""

import time

time.sleep(60)
