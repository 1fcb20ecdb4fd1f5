"""Which tasks a caller asks for: filters, selectors of labels, and pages of a listing."""
