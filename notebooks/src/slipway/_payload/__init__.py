"""What runs in a job: these files are shipped with it, and need nothing but Python there."""
