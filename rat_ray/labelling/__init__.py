"""Between a finished run and people who label: which items to label next, as what files, and what came back."""
