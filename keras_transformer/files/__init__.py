"""Files and folders that are read with care, and written whole or not at all."""
