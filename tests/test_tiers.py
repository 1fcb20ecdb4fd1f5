"""Which mutations the gate draws: those of functions that have changed."""

from tests.tiers import changed_lines

DIFF = """\
diff --git a/one.py b/two/one.py
similarity index 98%
rename from one.py
rename to two/one.py
--- a/one.py
+++ b/two/one.py
@@ -3 +3 @@ import this
-from .old import word
+from .new.old import word
@@ -10,2 +9,0 @@ def first():
-    gone
-    gone
@@ -20,0 +18,3 @@ def second():
+    a
+    b
+    c
diff --git a/other.py b/other.py
deleted file mode 100644
--- a/other.py
+++ /dev/null
@@ -1,2 +0,0 @@
-a
-b
"""


def test_each_change_counts_by_the_lines_that_it_leaves_and_what_is_taken_out_by_its_neighbours():
    found = changed_lines(DIFF)
    assert found["two/one.py"] == [(3, 4), (9, 11), (18, 21)]
    assert "one.py" not in found
    assert "other.py" not in found
