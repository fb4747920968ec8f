"""What people read: the result table on the console, the figures, and one self-contained HTML page."""
