"""One variable at a time: dual and primal coordinate descent."""
