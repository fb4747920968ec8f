"""What people read: the result table on the console, the figures, and one self-contained HTML page."""

from rat_ray.report.page import ReportInput, render

__all__ = ["ReportInput", "render"]
