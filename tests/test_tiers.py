"""Which mutations the gate draws, those of functions that have changed, and in which order workers run tests."""

import pytest

from tests.tiers import MOST_MUTATIONS, changed_lines, drawn, in_shares

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


def test_each_worker_begins_with_its_share_of_the_long_tests():
    assert in_shares("ABC", "abcdefg", 2) == [*"ACabc", *"Bdefg"]


@pytest.mark.parametrize("workers", [1, 2, 3, 7, 30])
@pytest.mark.parametrize("long", ["", "A", "ABCDEFGHIJ"])
def test_no_test_is_lost_however_many_workers_there_are(long, workers):
    assert sorted(in_shares(long, "abcdefg", workers)) == sorted(f"{long}abcdefg")


def test_of_many_mutations_each_commit_draws_others():
    many = [f"mutation {number}" for number in range(2 * MOST_MUTATIONS)]
    one, other = drawn(many, "c1"), drawn(many, "c2")
    assert len(one) == len(other) == MOST_MUTATIONS
    assert one != other
    assert drawn(reversed(many), "c1") == one


def test_few_mutations_are_all_drawn():
    assert drawn(["a", "b"], "c1") == {"a", "b"}
