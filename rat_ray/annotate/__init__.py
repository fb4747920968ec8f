"""Labels: rules, judges and trusted sources, joined into one annotations table per configuration."""
