"""What is weak in handles, their blobs, and checkpoints."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

HANDLES = "handles/store.py"
ANCHOR = "handles/anchor.py"
RULES = "handles/anchor_rules.py"
DISKS = "storage/local.py"
CHECKPOINTS = "checkpoints/store.py"
SERVERS = ("zookeeper", "etcd")
ALL = ("memory", "sqlite", *SERVERS)
DOUBT = "tests/faults/test_unknown_outcomes.py::"
LOCKS = "tests/unit/handles/test_locks.py::"
ORDER = "tests/faults/test_write_order.py::"
READING = "tests/unit/handles/test_reading.py::"
DISK = "tests/unit/storage/test_blobs.py::"
LATE = "tests/regressions/test_late_requests_after_a_removal.py::"
LATE_ADDS = tuple(
    f"{store}-{payload}-False"
    for store in ("memory", "sqlite", "zookeeper", "etcd")
    for payload in ("inline", "payload1")
)

OF_HANDLES: Final = (
    Mutant(
        "read-then-lock",
        "a lock is made without a check that the handle is still the one that was read",
        (Change(RULES, "return (handle,), (lock, move(", "return (), (lock, move("),),
        on(LOCKS + "test_a_lock_follows_a_replacement", *ALL),
    ),
    Mutant(
        "locks-present-nothing",
        "a lock is made whatever became of its handle and of its area",
        (Change(RULES, "return (handle,), (lock, move(sight, area, value))", "return (), (lock,)"),),
        (
            *on(LOCKS + "test_a_lock_never_makes_its_parent", *ALL),
            *on(DOUBT + "test_a_late_lock_never_makes_its_parent", *ALL),
        ),
    ),
    Mutant(
        "inline-payloads-unchecked",
        "a payload in a record is taken as it is, whatever its checksum says",
        (
            Change(
                "handles/handle.py",
                """        if inline is not None and found["sha256"] != _checksum(inline):""",
                """        if inline is not None and found["sha256"] is None:""",
            ),
        ),
        on(READING + "test_an_inline_payload_that_is_not_the_one_that_was_written_is_loud", *ALL),
    ),
    Mutant(
        "addresses-lead-anywhere",
        "a blob is sought, and deleted, wherever its address leads",
        (Change("storage/names.py", "    return not any(part in", "    return True or not any(part in"),),
        (
            *on(
                READING + "test_an_address_that_leads_out_of_the_blobs_is_not_followed",
                *(f"{s}-../outside" for s in ALL),
            ),
            *on(DISK + "test_an_address_outside_is_refused", "disk-../x", "disk-a/../b", "remote-/etc/passwd"),
        ),
    ),
    Mutant(
        "locks-move-no-anchor",
        "a removal does not learn of a lock that was committed after it listed the locks",
        (Change(RULES, "return (handle,), (lock, move(sight, area, value))", "return (handle,), (lock,)"),),
        (
            *on(LOCKS + "test_a_lock_costs_the_leader_one_look_and_blocks_no_other_handle", *ALL),
            *on(LOCKS + "test_a_lock_that_comes_just_before_the_removal_keeps_the_handle", *ALL),
        ),
    ),
    Mutant(
        "locks-never-listed",
        "a removal takes the anchor that it read for one without locks",
        (Change(RULES, "(sight.locked is None or not ", "(sight.locked is not None and not "),),
        on(LOCKS + "test_a_lock_that_comes_just_before_the_removal_keeps_the_handle", *ALL),
    ),
    Mutant(
        "lock-made-twice",
        "a lock that was made, and whose anchor has moved since, is made once more",
        (
            Change(
                ANCHOR,
                "return self._version_of(lock) if refused.earlier_request_may_apply else None",
                "return None if refused.earlier_request_may_apply else None",
            ),
        ),
        on(LOCKS + "test_a_lock_whose_reply_was_lost_before_the_anchor_moved_is_one_lock", *ALL),
    ),
    Mutant(
        "blob-deleted-before-its-pointer",
        "the bytes go first, the handle second",
        (
            Change(
                HANDLES,
                "        try:\n            done = self._anchor.commit(",
                """        for handle in remove:
            self._discard(handle.blob)
        try:
            done = self._anchor.commit(""",
            ),
        ),
        (
            *on(ORDER + "test_the_effects_come_in_the_order_of_the_table", "remove", "add and remove"),
            *on(ORDER + "test_a_crash_at_any_effect_leaves_no_broken_pointer", "remove", "remove all"),
        ),
    ),
    Mutant(
        "blob-kept-by-no-doubt",
        "the new blob is deleted although its pointer may stand",
        (
            Change(
                HANDLES,
                "            if not lost.write_is_unknown:\n                self._discard(blob)\n",
                "            self._discard(blob)\n",
            ),
        ),
        on(DOUBT + "test_the_term_ends_between_the_lost_reply_and_the_retry", *ALL),
    ),
    Mutant(
        "pointer-before-its-blob",
        "the handle is committed first, the bytes are written second",
        (
            Change(
                HANDLES,
                '            blob = self._blobs.write(f"e{term.epoch:08d}/{key}-{new_uid()}", payload)\n',
                """            import hashlib

            self._later = f"e{term.epoch:08d}/{key}-{new_uid()}", payload
            blob = Blob(self._later[0], len(payload), hashlib.sha256(payload).hexdigest())
""",
            ),
            Change(
                HANDLES,
                "        if replaced is not None:\n            self._discard_replaced(",
                """        if blob is not None:
            self._blobs.write(*self._later)
        if replaced is not None:
            self._discard_replaced(""",
            ),
        ),
        (
            *on(ORDER + "test_the_effects_come_in_the_order_of_the_table", "add", "replace"),
            *on(ORDER + "test_a_crash_at_any_effect_leaves_no_broken_pointer", "add", "replace"),
        ),
    ),
    Mutant(
        "blob-not-synced",
        "the name of a blob is durable, its bytes are not",
        (Change(DISKS, "        os.fsync(file.fileno())\n", ""),),
        (
            DISK + "test_the_bytes_are_durable_before_the_name_appears",
            DISK + "test_a_crash_at_any_call_leaves_nothing_or_the_whole_blob",
        ),
    ),
    Mutant(
        "blob-named-before-it-is-written",
        "a blob has its name while its bytes are still being written",
        (
            Change(
                DISKS,
                """            _write_synced(hidden, data)
            os.link(hidden, full)
""",
                """            with open(hidden, "xb") as file:
                os.link(hidden, full)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
""",
            ),
        ),
        (
            DISK + "test_the_bytes_are_durable_before_the_name_appears",
            DISK + "test_a_crash_at_any_call_leaves_nothing_or_the_whole_blob",
        ),
    ),
    Mutant(
        "anchor-stays",
        "a removal does not move the anchor of its area",
        (
            Change(
                RULES,
                "    if isinstance(sight.anchor, Exact) and not moves:",
                "    if isinstance(sight.anchor, Exact):",
            ),
        ),
        on(LATE + "test_a_late_add_does_not_resurrect_what_was_removed", *LATE_ADDS),
    ),
    Mutant(
        "anchor-is-not-presented",
        "an add does not say which anchor it saw",
        (Change(RULES, "return (sight.anchor,), ()", "return (), ()"),),
        on(LATE + "test_a_late_add_does_not_resurrect_what_was_removed", *LATE_ADDS),
    ),
)

OF_CHECKPOINTS: Final = (
    Mutant(
        "plan-and-drop-apart",
        "the new checkpoint and the removal of the oldest are two commits",
        (
            Change(
                CHECKPOINTS,
                """guards=newest, remove=remove
                )
""",
                """guards=newest
                )
                self._handles.remove_all(term, remove)
""",
            ),
        ),
        on("tests/unit/checkpoints/test_store.py::test_add_and_drop_are_one_commit", *ALL),
    ),
    Mutant(
        "plan-without-the-one-before",
        "a batch is planned without a check that the one before it is the newest",
        (Change(CHECKPOINTS, ", guards=newest, remove=remove\n", ", remove=remove\n"),),
        (
            LATE + "test_the_first_batch_is_not_planned_again_from_what_was_known_before",
            *on(
                "tests/unit/checkpoints/test_store.py::test_a_store_with_old_knowledge_of_any_age_plans_nothing_again",
                *ALL,
            ),
        ),
    ),
)
