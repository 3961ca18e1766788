"""Evidence: every figure is a program with a claim. `python -m benchmarks` lists them."""
