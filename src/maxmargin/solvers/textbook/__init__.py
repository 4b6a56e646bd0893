"""Plain first- and second-order descent, as the survey compares them."""
