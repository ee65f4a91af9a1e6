"""Files that hold labellings of items: spans or single labels, as rows, CoNLL columns or brat."""
