"""Cutting planes: OCAS, CPA, BMRM, SVM-perf, and structured risks."""
