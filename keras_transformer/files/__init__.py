"""Files and folders: safe reading, and writing whole or not at all."""
