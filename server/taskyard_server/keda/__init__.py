"""Generated stubs of KEDA's contract for external scalers (third_party/keda); tools/generate.sh makes them."""
