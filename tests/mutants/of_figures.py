"""What keeps figures, probes and the verdict honest."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant

METRICS: Final = "agent/metrics.py"
CONDITION: Final = "agent/condition.py"
VERDICT: Final = "operate/verdict.py"
FIGURES: Final = "tests/unit/agent/test_metrics.py::"
STATES: Final = "tests/unit/agent/test_condition.py::"
LOG: Final = "event_log.py"
LOGS: Final = "tests/unit/test_event_log.py::"
TIMED: Final = "tests/unit/coordination/test_timed_store.py::"
PROGRESS: Final = "tests/unit/driver/test_progress.py::"
PROBES: Final = "tests/unit/agent/test_probes.py::"
VERDICTS: Final = "tests/unit/operate/test_verdict.py::"

OF_FIGURES: Final = (
    Mutant(
        "attempts-as-leadership",
        "the time without a leader counts from the last attempt at a batch that fails",
        (Change("operate/picture.py", "failing is None or not empty_since", "failing is None or empty_since"),),
        ("tests/unit/operate/test_verdict.py::test_attempts_do_not_count_as_leadership",),
    ),
    Mutant(
        "figures-outlive-the-term",
        "the last batch of a member that led once stands still on its page, and alarms fire for ever",
        (Change(METRICS, "            if metric.of_term:\n", "            if False:\n"),),
        (FIGURES + "test_the_figures_of_a_term_go_with_it",),
    ),
    Mutant(
        "late-figures-stay",
        "a batch that the driver tells after the end of the term puts its figures back, for ever",
        (Change(METRICS, "not metric.of_term or self._is_present(event)", "True"),),
        (FIGURES + "test_what_spark_says_of_a_batch",),
    ),
    Mutant(
        "topics-outlive-their-query",
        "a source that a query reads no more keeps its backlog, and an alarm fires for ever",
        (Change(METRICS, '        self._figures[BACKLOG].remove_by_labels({"query": event.query})\n', ""),),
        (FIGURES + "test_what_spark_says_of_a_batch",),
    ),
    Mutant(
        "only-the-newest-batch",
        "of several batches between two looks, only the last is counted",
        (Change("driver/progress.py", "for index in reversed(range(len(recent)))", "for index in ()"),),
        (PROGRESS + "test_each_batch_is_told_once_and_spark_is_asked_no_more_than_needed",),
    ),
    Mutant(
        "all-that-spark-remembers",
        "each look asks the JVM for a hundred progresses",
        (Change("driver/progress_rules.py", '        if progress["timestamp"] <= after:\n            break\n', ""),),
        (PROGRESS + "test_each_batch_is_told_once_and_spark_is_asked_no_more_than_needed",),
    ),
    Mutant(
        "silence-is-contact",
        "a store that does not answer was heard of just now",
        (Change(METRICS, "            if error not in AWAY:\n", "            if True:\n"),),
        (FIGURES + "test_the_requests_to_the_store",),
    ),
    Mutant(
        "failed-requests-take-no-time",
        "a store that answers nobody in time looks fast",
        (
            Change(
                "coordination/timed_store.py",
                "            error = _kind(failed)\n            raise\n        finally:",
                "            raise\n        else:",
            ),
        ),
        (TIMED + "test_a_slow_request_is_told_with_its_time_also_when_it_fails",),
    ),
    Mutant(
        "everybody-rotates",
        "two processes rename the log at once, and the second renames the new file over the old",
        (Change(LOG, "            if is_at(path, descriptor):\n", "            if True:\n"),),
        (LOGS + "test_writers_at_once_lose_and_tear_nothing",),
    ),
    Mutant(
        "a-rotation-waits",
        "an agent waits for the log of its driver, which is stopped, and loses its term",
        (
            Change(
                LOG,
                "            if not take_lock(descriptor):\n                return False\n",
                "            while not take_lock(descriptor):\n                raise TimeoutError\n",
            ),
            Change(
                LOG,
                "        except OSError:\n            return False\n",
                "        except PermissionError:\n            return False\n",
            ),
        ),
        (LOGS + "test_nobody_waits_for_a_process_that_was_stopped_while_it_renamed",),
    ),
    Mutant(
        "a-cut-line-spoils-the-next",
        "after a full disk, two lines of the event log are one that no reader takes",
        (Change(LOG, 'b"\\n" * self._torn + line', "line"),),
        (LOGS + "test_a_line_that_a_full_disk_cut_spoils_no_other",),
    ),
    Mutant(
        "streams-outlive-the-agent",
        "a page that listens keeps a member from its end",
        (
            Change(
                "agent/event_stream.py",
                "                    closing = self._closing ",
                "                    closing = False ",
            ),
        ),
        (PROBES + "test_a_stream_ends_with_its_agent_and_has_the_last_event",),
    ),
    Mutant(
        "numbers-of-another-agent",
        "after a restart of the agent, a page waits for numbers that come in a week",
        (Change("agent/event_stream.py", "if after > self._rings.newest:", "if False:"),),
        (PROBES + "test_events_are_streamed_as_they_come",),
    ),
    Mutant(
        "counters-are-born-at-one",
        "a counter is not there before its first event, so an alarm on its growth misses that event",
        (Change(METRICS, "    if all(one is not None for one in lists):\n", "    if False:\n"),),
        (FIGURES + "test_a_counter_is_there_before_its_first_event",),
    ),
    Mutant(
        "reasons-without-end",
        "the text of an error is a label, and each error makes a series",
        (Change(METRICS, "value if closed is None or value in closed else OTHER", "value"),),
        (
            FIGURES + "test_why_a_term_ended_is_of_a_closed_list"
            "[not resigned, it ends with the session: the store is away-other]",
        ),
    ),
    Mutant(
        "silence-is-health",
        "a driver that hangs answers the probes as if it were well",
        (Change(CONDITION, "return self.silent_s > SILENT_S", "return False"),),
        (PROBES + "test_each_probe_answers_its_question[/health]", STATES + "test_a_silence_is_told_once"),
    ),
    Mutant(
        "an-outage-is-a-start",
        "a member whose store is away says that its driver is not up",
        (Change(CONDITION, "away is not None and now.state is State.STARTING and self._is_up", "False"),),
        (STATES + "test_a_member_whose_store_is_away_is_away_and_not_starting",),
    ),
    Mutant(
        "stopped-is-well",
        "a pipeline whose members were all stopped by a signal is well, and cron says nothing",
        (Change("operate/symptoms.py", '("finished", "resigned", ', '("finished", "stopped", "resigned", '),),
        (VERDICTS + "test_a_pipeline_whose_members_were_all_stopped_is_not_well",),
    ),
    Mutant(
        "the-best-comes-first",
        "the verdict of a pipeline that stands still begins with what is well",
        (Change(VERDICT, "order = [Level.BAD, Level.WARN, Level.OK]", "order = [Level.OK, Level.WARN, Level.BAD]"),),
        (VERDICTS + "test_the_worst_comes_first",),
    ),
    Mutant(
        "work-that-never-ends",
        "a member's `/status` keeps long work that has ended",
        (Change("progress.py", "if not event.over:", "if True:"),),
        ("tests/unit/test_progress.py::test_a_copy_that_fails_ends_too",),
    ),
    Mutant(
        "floods-of-reports",
        "each file of a copy emits an event",
        (Change("progress.py", "if now_s < self._next_s:", "if False:"),),
        (
            "tests/unit/test_progress.py::test_short_work_reports_nothing_and_long_work_at_its_pace",
            "tests/unit/test_progress.py::test_a_short_copy_emits_nothing",
        ),
    ),
)
